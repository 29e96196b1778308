"""The one error that handlers raise towards the client."""

from __future__ import annotations

__all__ = ["BadRequestError"]


class BadRequestError(Exception):
    """The request cannot be served; becomes SGLang's error object, in the form of the API that was asked.

    Args:
        message: what is wrong.
        status: HTTP status.
        kind: SGLang's ``type``: ``BadRequestError`` from its own checks, ``Bad Request`` from the body's schema.
        param: the field to blame, where SGLang names it.
    """

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param
