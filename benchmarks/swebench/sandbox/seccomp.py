"""System calls that no sandbox lets through.

Containers have the profile of their program, which allows some 350 calls and refuses all others. Podman's also allows
user namespaces, in which their maker has every capability: the part of the kernel in which most holes were. Docker's
refuses them already. So Podman gets its profile without them.

Bubblewrap has no profile of its own. It is told to refuse the same, and what those profiles refuse to who has no
capability; libseccomp compiles that.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from benchmarks.swebench.sandbox.base import SandboxUnavailable

__all__ = ["DANGEROUS", "REFUSED", "compiled_filter", "without_namespaces"]

REFUSED = frozenset({"unshare", "setns", "clone3", "mount", "umount", "umount2", "pivot_root", "mount_setattr"}) | {
    *("move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "keyctl", "add_key", "request_key")
}
"""What makes namespaces, what is of use in them alone, and keyrings, which no namespace divides. Refused as by a kernel
that has no such call; C libraries then use ``clone``."""
NAMESPACES = 0x7E020000
"""Flags of ``clone`` that make a namespace."""
DANGEROUS = frozenset({"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter"}) | {
    *(
        "io_uring_register",
        "open_by_handle_at",
        "name_to_handle_at",
        "fanotify_init",
        "fanotify_mark",
        "lookup_dcookie",
    ),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff"),
    *("acct", "quotactl", "quotactl_fd", "syslog", "chroot", "vhangup", "nfsservctl", "iopl", "ioperm", "uselib"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname"),
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp", "move_pages"),
    *("migrate_pages", "mbind", "set_mempolicy", "set_mempolicy_home_node", "get_mempolicy", "ustat", "sysfs"),
    *("_sysctl", "create_module", "get_kernel_syms", "query_module", "vm86", "vm86old", "modify_ldt"),
}
"""What bubblewrap refuses besides: what asks for capabilities that nobody inside has, reaches other processes, or is
much of the kernel for nothing that a test needs. Most of it the kernel would refuse anyway."""
FAMILIES = (17, 40, 38)
"""Kinds of sockets: packets, those to the host of a virtual machine (which no network namespace divides), and the
kernel's ciphers."""
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
"""libseccomp's actions; an errno is added to the second."""
MASKED_EQUAL, EQUAL = 7, 4
"""libseccomp's comparisons."""
UNKNOWN_CALL = -1


def without_namespaces(profile: Mapping[str, Any]) -> dict[str, Any]:
    """A profile that allows what ``profile`` allows, without namespaces and mounts."""
    rules = []
    for rule in profile["syscalls"]:
        names = [name for name in rule["names"] if name not in REFUSED and name != "clone"]
        if rule["action"] != "SCMP_ACT_ALLOW":
            rules.append(rule)
        elif names:
            rules.append({**rule, "names": names})
    no_namespace = {"index": 0, "value": NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    rules.append({"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [no_namespace]})
    return {**profile, "syscalls": rules}


class _Comparison(ctypes.Structure):
    """libseccomp's ``struct scmp_arg_cmp``."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


def compiled_filter() -> bytes:
    """A BPF program, as ``bwrap --seccomp`` takes it, that refuses :data:`REFUSED`, :data:`DANGEROUS` and namespaces.

    Raises:
        SandboxUnavailable: there is no libseccomp on this machine.
    """
    library = _library()
    rules = library.seccomp_init(ALLOW)
    if not rules:
        raise SandboxUnavailable("libseccomp cannot make a filter here")
    try:
        for name in sorted(REFUSED | DANGEROUS):
            _refuse(library, rules, name, errno.ENOSYS)
        for bit in range(NAMESPACES.bit_length()):
            if flag := NAMESPACES & (1 << bit):
                _refuse(library, rules, "clone", errno.EPERM, _Comparison(0, MASKED_EQUAL, flag, flag))
        for family in FAMILIES:
            _refuse(library, rules, "socket", errno.EAFNOSUPPORT, _Comparison(0, EQUAL, family, 0))
        return _exported(library, rules)
    finally:
        library.seccomp_release(rules)


def _library() -> Any:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as error:
        raise SandboxUnavailable(f"the sandbox needs libseccomp ({error}): apt-get install libseccomp2") from None
    context = ctypes.c_void_p
    library.seccomp_init.argtypes, library.seccomp_init.restype = (ctypes.c_uint32,), context
    library.seccomp_release.argtypes, library.seccomp_release.restype = (context,), None
    library.seccomp_syscall_resolve_name.argtypes = (ctypes.c_char_p,)
    library.seccomp_rule_add_array.argtypes = (
        *(context, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Comparison)),
    )
    library.seccomp_export_bpf.argtypes = (context, ctypes.c_int)
    return library


def _refuse(library: Any, rules: Any, name: str, why: int, *when: _Comparison) -> None:
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number == UNKNOWN_CALL:  # newer than this libseccomp
        return
    array = (_Comparison * len(when))(*when)
    code = library.seccomp_rule_add_array(rules, ERRNO | why, number, len(when), array)
    if code:
        raise SandboxUnavailable(f"libseccomp cannot refuse {name} here: {os.strerror(-code)}")


def _exported(library: Any, rules: Any) -> bytes:
    read_fd, write_fd = os.pipe()
    try:
        code = library.seccomp_export_bpf(rules, write_fd)  # 8 bytes an instruction: less than a pipe takes
        os.close(write_fd)
        write_fd = -1
        if code:
            raise SandboxUnavailable(f"libseccomp cannot compile the filter: {os.strerror(-code)}")
        with os.fdopen(read_fd, "rb", closefd=False) as stream:
            return stream.read()
    finally:
        for each in (read_fd, write_fd):
            with suppress(OSError):
                os.close(each)
