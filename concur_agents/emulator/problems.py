"""The one error that handlers raise towards the client."""

from __future__ import annotations

__all__ = ["BadRequestError"]


class BadRequestError(Exception):
    """The request cannot be served; becomes SGLang's error object.

    Args:
        message: what is wrong.
        status: HTTP status.
        kind: SGLang's ``type``: ``BadRequestError`` from its own checks, ``Bad Request`` from the body's schema.
    """

    def __init__(self, message: str, *, status: int = 400, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
