"""Podman's system call filter, without what a user who has a user namespace of their own may do.

Podman lets containers make user namespaces, in which they have every capability over what they make there: the part of
the kernel in which most holes were. Docker's filter refuses them already, and bubblewrap has ``--disable-userns``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["without_namespaces"]

REFUSED = frozenset({"unshare", "setns", "clone3", "mount", "umount", "umount2", "pivot_root", "mount_setattr"}) | {
    *("move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "keyctl", "add_key", "request_key")
}
"""What makes namespaces, what is of use in them alone, and keyrings, which no namespace divides. Refused as by a kernel
that has no such call; C libraries then use ``clone``."""
NAMESPACES = 0x7E020000
"""Flags of ``clone`` that make a namespace."""


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
