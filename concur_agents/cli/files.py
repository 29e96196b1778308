"""What a server that holds many connections needs of the machine."""

from __future__ import annotations

import contextlib

__all__ = ["allow_open_files"]


def allow_open_files() -> None:
    """As many open files as may be: what shells allow by default is met by some 500 to 1,000 agents."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # no such limits; more allowed than the kernel takes
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
