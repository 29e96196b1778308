"""``concur emulate``: the embedded engine as a process of its own."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["emulate"]


def emulate(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")] = 30000,
    preset: Annotated[str, typer.Option(help="Engine to emulate; see --help-presets.")] = "laptop",
    speedup: Annotated[float, typer.Option(help="Engine seconds per second.")] = 1.0,
    cost_file: Annotated[Path | None, typer.Option(help="JSON cost model, in place of the preset's.")] = None,
    model: Annotated[str | None, typer.Option(help="Model name to report.")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="Hugging Face folder to tokenize with.")] = None,
    max_total_tokens: Annotated[int | None, typer.Option(help="KV pool in tokens.")] = None,
    page_size: Annotated[int | None, typer.Option(help="Tokens per KV page.")] = None,
    context_length: Annotated[int | None, typer.Option(help="Longest prompt plus output.")] = None,
    chunked_prefill_size: Annotated[int | None, typer.Option(help="Tokens per prefill pass; -1: no chunks.")] = None,
    max_running_requests: Annotated[int | None, typer.Option(help="Requests decoding at once.")] = None,
    max_queued_requests: Annotated[int | None, typer.Option(help="Requests waiting; more get 503.")] = None,
    host_cache: Annotated[
        float | None, typer.Option(help="Cache tier in host memory (HiCache), as a multiple of the KV pool.")
    ] = None,
    decode_log_interval: Annotated[int | None, typer.Option(help="Decode steps per gauge update.")] = None,
    schedule_conservativeness: Annotated[float | None, typer.Option(help="Scales the reserved output.")] = None,
    seed: Annotated[int, typer.Option(help="Of the filler text.")] = 0,
    cache_report: Annotated[bool, typer.Option(help="Report cached tokens in usage.")] = True,
    metrics: Annotated[bool, typer.Option(help="Serve /metrics.")] = True,
    help_presets: Annotated[bool, typer.Option("--help-presets", help="List the presets and exit.")] = False,
) -> None:
    """Serve an emulated SGLang engine. Prints its URL when it is ready; stops on SIGINT or SIGTERM."""
    from concur_agents.emulator.cost import CostModel
    from concur_agents.emulator.embed import build_server, url_of
    from concur_agents.emulator.hicache import HiCacheConfig
    from concur_agents.emulator.presets import PRESETS, get_preset
    from concur_agents.emulator.service import ServiceConfig

    if help_presets:
        for name, one in PRESETS.items():
            typer.echo(f"{name:24} {one.model}, {one.config.max_total_tokens} tokens")
        return
    given: dict[str, Any] = {
        "max_total_tokens": max_total_tokens,
        "page_size": page_size,
        "context_length": context_length,
        "chunked_prefill_size": chunked_prefill_size,
        "max_running_requests": max_running_requests,
        "max_queued_requests": max_queued_requests,
        "decode_log_interval": decode_log_interval,
        "schedule_conservativeness": schedule_conservativeness,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if changes.get("chunked_prefill_size") == -1:
        changes["chunked_prefill_size"] = None
    try:
        if host_cache is not None:
            changes["hicache"] = HiCacheConfig(ratio=host_cache)
        base = get_preset(preset)
        config = ServiceConfig(
            engine=dataclasses.replace(base.config, **changes),
            cost=base.cost if cost_file is None else CostModel.load(cost_file),
            model=model or base.model,
            speedup=speedup,
            seed=seed,
            enable_cache_report=cache_report,
            enable_metrics=metrics,
        )
        server, listener, _ = build_server(config, host, port, _load_tokenizer(tokenizer))
    except (ValueError, OSError, ImportError) as problem:
        typer.echo(f"concur emulate: {problem}", err=True)
        raise typer.Exit(2) from problem
    # uvicorn stops on these signals and then raises them again, for whoever ran it: that is us, and we are done.
    # One that comes before uvicorn listens to them must stop it too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    with listener:
        typer.echo(url_of(host, listener.getsockname()[1]))
        server.run(sockets=[listener])


def _load_tokenizer(folder: Path | None) -> Any:
    if folder is None:
        return None
    from concur_agents.emulator.hf import HuggingFaceTokenizer

    return HuggingFaceTokenizer(folder)
