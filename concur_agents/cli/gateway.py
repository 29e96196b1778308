"""``concur gateway``: Concur by changing a base_url."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from concur_agents.cli.files import allow_open_files

__all__ = ["gateway"]

_MIB = 2**20
_OPTIONS = {"url": "--engine"} | {
    name: "--" + name.replace("_", "-")
    for name in ("identity", "idle_after", "hold", "hold_share", "engine_wait", "grace", "agent_header")
}
_OPTIONS |= {"session_header": "--agent-header", "allow": "--allow-engines"}


def gateway(
    *,
    engine: Annotated[
        list[str] | None, typer.Option(help="The engine's base address, with or without /v1; again for each engine.")
    ] = None,
    allow_engines: Annotated[
        list[str] | None,
        typer.Option(help="Engines that may join meanwhile, like http://10.0.0.*:30000; again for more."),
    ] = None,
    dp_ranks: Annotated[
        int, typer.Option(min=1, max=64, help="Data-parallel ranks of each engine, each to have agents of its own.")
    ] = 1,
    agent_header: Annotated[
        str | None,
        typer.Option(help="Header to name agents by where requests do not, as X-SMG-Routing-Key for sglang-router."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for other hosts.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8300,
    config: Annotated[
        Path | None, typer.Option(help="YAML or TOML file of the controller; else CONCUR_CONFIG or the environment.")
    ] = None,
    law: Annotated[str | None, typer.Option(help="A law's name, or fixed:N; stronger than the file.")] = None,
    identity: Annotated[
        str | None,
        typer.Option(help="Where agents' ids are, in order: header:NAME, body:FIELD, prefix; commas between."),
    ] = None,
    idle_after: Annotated[float, typer.Option(help="Seconds without a request after which an agent has ended.")] = 900,
    hold: Annotated[
        float | None, typer.Option(help="Seconds a request may wait for its turn before 503; none by default.")
    ] = None,
    hold_share: Annotated[
        float, typer.Option(help="The same, as a share of the timeout that a client announces.")
    ] = 0.8,
    engine_wait: Annotated[float, typer.Option(help="Seconds a request waits for an engine that is down.")] = 60,
    max_body: Annotated[int, typer.Option(min=1, help="MiB of one request; more gets 413.")] = 64,
    max_requests: Annotated[int, typer.Option(min=1, help="Requests held at a time; more get 503.")] = 10_000,
    grace: Annotated[float, typer.Option(help="Seconds for replies under way once told to stop.")] = 30,
) -> None:
    """Serve a proxy in front of engines that lets each agent's requests through when it is its turn.

    Point your client's base_url at the address it prints, with /v1. Stops on SIGINT or SIGTERM.
    """
    try:
        from concur_agents.gateway import DEFAULT_IDENTITY, AllowedEngines, Gateway, GatewayLimits, build_server
    except ImportError as missing:
        typer.echo(f"concur gateway: {missing}; pip install 'concur-agents[gateway]'", err=True)
        raise typer.Exit(2) from missing
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    limits: dict[str, Any] = {
        "idle_after": idle_after,
        "hold_share": hold_share,
        "engine_wait": engine_wait,
        "max_body": max_body * _MIB,
        "max_requests": max_requests,
    } | ({} if hold is None else {"hold": hold})
    try:
        urls, opener = _engines(engine or [], config, law, dp_ranks)
        served = Gateway(
            [upstream for url in urls for upstream in opener(url)],
            opener=opener,
            allowed=AllowedEngines(allow_engines or ()),
            agent_header=agent_header,
            identity=DEFAULT_IDENTITY if identity is None else tuple(each.strip() for each in identity.split(",")),
            limits=GatewayLimits(**limits),
        )
        try:
            server, listener = build_server(served, host, port, grace=grace)
        except OSError as problem:
            raise ValueError(f"--host {host} --port {port} cannot be listened on: {problem.strerror}") from problem
    except (ValueError, OSError, ImportError) as problem:
        typer.echo(f"concur gateway: {_by_option(str(problem), law)}", err=True)
        raise typer.Exit(2) from problem
    allow_open_files()
    # uvicorn stops on these signals and then raises them again, for whoever ran it: that is us, and we are done.
    # One that comes before uvicorn listens to them must stop it too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    sys.setswitchinterval(0.0005)  # the control loop is another thread: no reply waits 5 ms until it lets go
    # What was imported never goes; a full collection that looks through it holds up every stream for tens of ms.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    with listener:
        typer.echo(f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])


def _engines(
    urls: list[str], file: Path | None, law: str | None, ranks: int
) -> tuple[list[str], Callable[[str], list[Any]]]:
    """The engines' addresses, and what makes an engine of each: for each of its ranks, with a controller of its own."""
    from concur_agents.config import load_config
    from concur_agents.controller import Controller
    from concur_agents.engines import AnyEngine
    from concur_agents.engines.url import engine_url
    from concur_agents.gateway.upstream import Upstream

    env = dict(os.environ) | ({} if law is None else {"CONCUR_LAW": law})
    config = load_config(file, env=env, engine=False).config
    if not urls and not config.engines:
        raise ValueError("--engine is missing: the engine's address, like http://127.0.0.1:30000")
    variable = next((each.api_key_env for each in config.engines if each.api_key_env), None)
    key = None if variable is None else env[variable]
    urls = urls or [each.url for each in config.engines]
    names = [str(engine_url(url)) for url in urls]
    if len(set(names)) != len(names):
        raise ValueError(f"--engine must not name an engine twice, got {', '.join(names)}")

    def opener(url: str) -> list[Any]:
        return [
            Upstream(
                url,
                Controller.from_config(config, reader=AnyEngine(url, api_key=key, rank=rank)),
                rank=rank,
            )
            for rank in ([None] if ranks == 1 else range(ranks))
        ]

    return urls, opener


def _by_option(problem: str, law: str | None) -> str:
    """The same problem, by the option's name and not by that of what it became."""
    name, _, rest = problem.partition(" ")
    if name == "CONCUR_LAW" and law is not None:
        return f"--law {rest}"
    return f"{_OPTIONS[name]} {rest}" if name in _OPTIONS else problem
