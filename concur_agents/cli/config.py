"""``concur config``: look at a configuration before it is used."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from concur_agents.config import ENVIRONMENT, json_schema, load_config
from concur_agents.errors import ConfigError, EngineReadError

__all__ = ["config_app"]

config_app = typer.Typer(no_args_is_help=True, help="Look at a controller's configuration.")

_READ_S = 10.0
"""Longest wait for an engine's answer."""
# A paragraph that rich and click leave as it is begins with this.
_AS_IT_IS = "\b\n"
_VARIABLES = (
    "Environment variables, stronger than the file:\n\n"
    + _AS_IT_IS
    + "\n".join(f"{variable.name:<23}{variable.meaning}" for variable in ENVIRONMENT)
)


@config_app.command(epilog=_VARIABLES)
def check(
    file: Annotated[
        Path | None, typer.Argument(help="YAML or TOML file; without one, CONCUR_CONFIG or the environment alone.")
    ] = None,
    *,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also read each engine once, and print the sample.")
    ] = False,
) -> None:
    """Print what is in force, and where each value is from.

    Exit status: 0 all is well, 1 the engine could not be read, 2 the configuration has problems.
    """
    try:
        loaded = load_config(file)
    except (ConfigError, ImportError) as error:
        _fail(str(error), 2)
    rows = loaded.values()
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for field, value, origin in rows:
        typer.echo(f"{field:<{widths[0]}}  {value:<{widths[1]}}  {origin}")
    for engine in loaded.config.engines if connect else ():
        reader = engine.reader()
        try:
            sample = reader.read(_READ_S)
        except EngineReadError as error:
            _fail(str(error), 1)
        finally:
            reader.close()
        typer.echo("" if len(loaded.config.engines) == 1 else f"\n{reader.url}")
        for each in dataclasses.fields(sample):
            value = getattr(sample, each.name)
            typer.echo(f"{each.name:<20}  {'unknown' if value is None else value}")


@config_app.command(epilog=_VARIABLES)
def schema() -> None:
    """Print the JSON schema of a configuration file, for editors and other programs."""
    try:
        typer.echo(json.dumps(json_schema(), indent=2, allow_nan=False))
    except ImportError as error:
        _fail(str(error), 2)


def _fail(problem: str, status: int) -> NoReturn:
    typer.echo(f"concur config: {problem}", err=True)
    raise typer.Exit(status)
