"""``python -m benchmarks.front``: a front before an engine that runs."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer
import uvicorn

from benchmarks.front.app import create_app
from benchmarks.front.prompts import CHARACTERS

__all__ = ["main"]

KEEP_ALIVE_S = 75
"""Agents keep their connection through a tool call; uvicorn's 5 s would drop it under them."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


def main() -> NoReturn:
    """The program."""
    sys.exit(app())


@app.command()
def serve(
    *,
    engine: Annotated[str, typer.Option(help="URL of SGLang, or of an emulator.")],
    port: Annotated[int, typer.Option(help="Of the loopback interface.")],
    characters: Annotated[int, typer.Option(help="Of text in one token: a multiple of 4.")] = CHARACTERS,
    through: Annotated[
        str | None, typer.Option(help="URL of a proxy that takes completions of token ids and sends them here.")
    ] = None,
) -> None:
    """Answer chats with scripts (POST /emulator/scripts) over the engine's work, and pass everything else on."""
    try:
        application = create_app(engine, characters=characters, through=through)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from None
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=port,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
    )
