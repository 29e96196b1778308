"""What ``podman`` and ``docker`` are asked, and what is said where they cannot: of a program in their place."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.swebench.sandbox import Limits, SandboxUnavailable, check_kind
from benchmarks.swebench.sandbox.client import Client
from benchmarks.swebench.sandbox.seccomp import without_namespaces

DOCKER = {"PidsLimit": True, "MemoryLimit": True, "SecurityOptions": ["name=seccomp,profile=builtin"]}
SECURITY = {"rootless": False, "seccompEnabled": True}
PODMAN = {"host": {"cgroupControllers": ["memory", "pids"], "security": SECURITY}}
PROFILE = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "syscalls": [
        {"names": ["clone", "read", "unshare", "clone3"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["setns"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["bpf", "setns"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
    ],
}


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a program on PATH, alone, that answers ``info`` with this."""

    def put(program: str, about: object, *, code: int = 0) -> None:
        (tmp_path / "said").write_text(about if isinstance(about, str) else json.dumps(about))
        (tmp_path / program).write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/said\nexit {code}\n")
        (tmp_path / program).chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    return put


@pytest.fixture
def podman(tmp_path: Path) -> dict[str, object]:
    """What a podman says that can do all that is needed."""
    (tmp_path / "profile").write_text(json.dumps(PROFILE))
    return {"host": {**PODMAN["host"], "security": {**SECURITY, "seccompProfilePath": str(tmp_path / "profile")}}}


@pytest.mark.parametrize(("program", "hint"), [("podman", "apt-get install podman"), ("docker", "docs.docker.com")])
def test_a_program_that_is_missing_is_named(say: Callable[..., None], program: str, hint: str) -> None:
    with pytest.raises(SandboxUnavailable, match=f"needs {program}.*{hint}"):
        check_kind(program)


@pytest.mark.parametrize(
    ("program", "about", "why"),
    [
        ("docker", "{}x", "docker does not run here"),
        ("podman", '"text"', "podman does not run here"),
        ("docker", {**DOCKER, "PidsLimit": False}, "cannot limit processes"),
        ("docker", {**DOCKER, "SecurityOptions": ["name=seccomp", "name=rootless"]}, "rootless Docker"),
        ("docker", {**DOCKER, "SecurityOptions": ["name=seccomp", "name=userns"]}, "userns-remap"),
        ("docker", {**DOCKER, "SecurityOptions": None}, "filters no system calls"),
        ("podman", {"host": {"security": {**SECURITY, "seccompEnabled": False}}}, "filters no system calls"),
        ("podman", {"host": {"security": {**SECURITY, "seccompProfilePath": "/absent"}}}, "profile /absent"),
        ("podman", {}, "filters no system calls"),
    ],
)
def test_a_program_that_cannot_keep_an_agent_in_is_refused(
    say: Callable[..., None], program: str, about: object, why: str
) -> None:
    say(program, about)
    with pytest.raises(SandboxUnavailable, match=why):
        check_kind(program)


def test_a_daemon_that_does_not_answer_is_quoted(say: Callable[..., None]) -> None:
    say("docker", "Cannot connect to the Docker daemon", code=1)
    with pytest.raises(SandboxUnavailable, match="Cannot connect to the Docker daemon"):
        check_kind("docker")


def test_what_a_program_prints_is_given_whole(say: Callable[..., None]) -> None:
    """Messages quote its end; an answer that is cut is no answer."""
    text = json.dumps({**DOCKER, "Name": "x" * 10_000})
    say("docker", text)
    assert Client("docker").call("info") == text


def test_as_root_podman_without_a_pids_cgroup_is_refused(say: Callable[..., None], podman: dict) -> None:
    podman["host"]["cgroupControllers"] = ["cpu"]
    say("podman", podman)
    with pytest.raises(SandboxUnavailable, match="cannot limit processes"):
        check_kind("podman")


NEEDED = {
    *("--rm", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only"),
    *("--ipc=private", "--log-driver=none", "--pull=never", "--entrypoint=bash", "--memory=1000000", "--pids-limit=10"),
    *("--env=HTTPS_PROXY=", "--env=no_proxy="),
}


def test_both_programs_are_told_all_that_contains(say: Callable[..., None], podman: dict, tmp_path: Path) -> None:
    limits = Limits(memory_bytes=1_000_000, processes=9)
    for program, about in (("docker", DOCKER), ("podman", podman)):
        say(program, about)
        flags = set(Client(program).isolation(limits, tmp_path))
        assert flags >= NEEDED
        assert not any(flag.startswith(("--privileged", "--cap-add", "--device", "--user=0")) for flag in flags)


def test_rootless_podman_gets_user_namespaces_and_counts_processes_in_them(
    say: Callable[..., None], podman: dict, tmp_path: Path
) -> None:
    podman["host"]["security"]["rootless"] = True
    podman["host"]["cgroupControllers"] = []
    say("podman", podman)
    client = Client("podman")
    flags = client.isolation(Limits(), tmp_path)
    assert client.counts_processes_by_user
    assert "--userns=keep-id" in flags
    assert not any(flag.startswith(("--memory", "--pids")) for flag in flags)


def test_the_filter_allows_what_podmans_does_but_no_namespace() -> None:
    rules = without_namespaces(PROFILE)["syscalls"]
    allowed = {name: rule for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert set(allowed) == {"read", "clone"}
    assert allowed["clone"]["args"] == [
        {"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}  # valueTwo: what is left of it
    ]
    assert PROFILE["syscalls"][2] in rules
