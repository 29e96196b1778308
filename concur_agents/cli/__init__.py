"""The ``concur`` command; one file a sub-command, heavy imports inside its functions."""

from __future__ import annotations

try:
    import typer
except ImportError as missing:  # a console script: a traceback would hide what to do
    raise SystemExit("the concur command needs typer: pip install 'concur-agents[cli]'") from missing

from concur_agents.cli.config import config_app
from concur_agents.cli.emulate import emulate
from concur_agents.cli.gateway import gateway
from concur_agents.cli.serve import serve

__all__ = ["main"]

main = typer.Typer(no_args_is_help=True, add_completion=False, help="Admission control for batches of LLM agents.")
main.command()(emulate)
main.command()(gateway)
main.command()(serve)
main.add_typer(config_app, name="config")
