"""``concur serve``: one controller for agents in many processes and hosts."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from concur_agents.cli.files import allow_open_files

__all__ = ["serve"]

_TOKEN_VARIABLE = "CONCUR_TOKEN"  # noqa: S105 - a variable's name
_LONGEST_TOKEN = 4096
_OPTIONS = {"lease_s": "--lease", "in_flight_s": "--in-flight"}


def serve(
    *,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            help="An engine's base address, with or without /v1; again for each of several. Else the configuration's."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for other hosts.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8400,
    config: Annotated[
        Path | None, typer.Option(help="YAML or TOML file of the controller; else CONCUR_CONFIG or the environment.")
    ] = None,
    law: Annotated[str | None, typer.Option(help="A law's name, or fixed:N; stronger than the file.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that clients must have; else CONCUR_TOKEN, if set.")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow other hosts without a token.")] = False,
    lease: Annotated[
        float, typer.Option(help="Seconds without a word after which a process is taken to be gone.")
    ] = 15,
    in_flight: Annotated[
        float, typer.Option(help="Seconds that an agent of such a process, which generated, then keeps its seat.")
    ] = 600,
) -> None:
    """Serve one controller to agents in many processes: Controller.connect(URL), or CONCUR_CONTROLLER=URL.

    With several engines each has its own window, and each grant names the engine to send to.

    Prints its address. Stops on SIGINT or SIGTERM; processes go on without control, and come back to the next one.
    """
    try:
        from concur_agents.remote.desk import Desk
        from concur_agents.remote.server import Server, check_exposure
    except ImportError as missing:
        typer.echo(f"concur serve: {missing}; pip install 'concur-agents[remote]'", err=True)
        raise typer.Exit(2) from missing
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        token = _token(token_file)
        check_exposure(host, token, insecure=insecure)
        controller = _controller(engine or [], config, law)
        desk = Desk(controller, lease_s=lease, in_flight_s=in_flight)
        try:
            server = Server(controller, desk, host=host, port=port, token=token)
        except OSError as problem:
            raise ValueError(f"--host {host} --port {port} cannot be listened on: {problem.strerror}") from problem
    except (ValueError, OSError, ImportError) as problem:
        typer.echo(f"concur serve: {_by_option(str(problem), law)}", err=True)
        raise typer.Exit(2) from problem
    allow_open_files()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stop())
    typer.echo(server.url)
    server.run()


def _controller(urls: list[str], file: Path | None, law: str | None) -> Any:
    from concur_agents.config import load_config
    from concur_agents.controller import Controller
    from concur_agents.engines import AnyEngine
    from concur_agents.fleet import FleetController

    # Whose controller this is cannot be said by the variable that its clients have.
    env = {name: value for name, value in os.environ.items() if name != "CONCUR_CONTROLLER"}
    config = load_config(file, env=env | ({} if law is None else {"CONCUR_LAW": law}), engine=False).config
    if not urls and not config.engines:
        raise ValueError("--engine is missing: the engine's address, like http://127.0.0.1:30000")
    variable = next((each.api_key_env for each in config.engines if each.api_key_env), None)
    key = None if variable is None else env[variable]
    engines = [(url, key) for url in urls] or [
        (each.url, env[each.api_key_env] if each.api_key_env else None) for each in config.engines
    ]
    readers = [AnyEngine(url, api_key=key) for url, key in engines]
    if len(readers) == 1:
        return Controller.from_config(config, reader=readers[0])
    return FleetController.from_config(config, engines=readers)


def _token(file: Path | None) -> str | None:
    """Without what editors put after it."""
    if file is None:
        token = os.environ.get(_TOKEN_VARIABLE, "").strip()
        where = _TOKEN_VARIABLE
    else:
        try:
            with file.open(encoding="utf-8") as opened:
                token = opened.read(_LONGEST_TOKEN + 1).strip()
        except (OSError, ValueError) as problem:
            raise ValueError(f"--token-file {file} cannot be read: {problem}") from problem
        where = f"--token-file {file}"
        if not token:
            raise ValueError(f"{where} is empty")
    if not token:
        return None
    if len(token) > _LONGEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError(f"{where} must hold visible ASCII characters without spaces (not shown)")
    return token


def _by_option(problem: str, law: str | None) -> str:
    """The same problem, by the option's name and not by that of what it became."""
    name, _, rest = problem.replace("or say insecure", "or --insecure").partition(" ")
    if name == "CONCUR_LAW" and law is not None:
        return f"--law {rest}"
    if name in ("url", "host", "engines"):
        return f"--{name if name == 'host' else 'engine'} {rest}"
    return f"{_OPTIONS[name]} {rest}" if name in _OPTIONS else problem
