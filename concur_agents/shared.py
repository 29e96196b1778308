"""One controller for a whole process, for frameworks that are configured by text alone and hand no object on."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from concur_agents.base import BaseController
from concur_agents.config import load_config
from concur_agents.controller import Controller
from concur_agents.fleet.controller import FleetController
from concur_agents.remote.client import RemoteController

if TYPE_CHECKING:
    from concur_agents.config.models import Config

__all__ = ["shared_controller"]

# Seconds for each controller at the interpreter's exit: its threads are daemons, what they still do may be cut off.
_PATIENCE = 1.0


@overload
def shared_controller(
    config: str | Path | Mapping[str, Any] | Config | None = None,
) -> Controller | FleetController | RemoteController: ...


@overload
def shared_controller(
    config: str | Path | Mapping[str, Any] | Config | BaseController | None,
) -> BaseController: ...


def shared_controller(
    config: str | Path | Mapping[str, Any] | Config | BaseController | None = None,
) -> BaseController:
    """The controller of this process for this configuration: made and started at first use, the same one after.

    Equal configurations share one, wherever they are from; several engines have a ``FleetController``. It is closed
    when the interpreter ends. A forked child makes its own; processes share no seats, unless ``controller``
    (``CONCUR_CONTROLLER``) says where one for all of them is. From any thread.

    Args:
        config: as for :meth:`Controller.from_config`; read again at each call. A controller is returned as it is.

    Raises:
        ConfigError: lists every problem.
        ImportError: the extra ``concur-agents[config]`` is not installed; or ``[remote]``, where ``controller`` is set.
    """
    if isinstance(config, BaseController):
        return config
    wanted = load_config(config, engine=False).config
    if wanted.controller is None and not wanted.engines:
        load_config(config)  # says what is missing, and where
    with _state.lock:
        _state.prepare()
        for known, controller in _state.controllers:
            if known == wanted and not controller.closed:
                return controller
        controller = _make(wanted)
        _state.controllers.append((wanted, controller))
        return controller


def _make(wanted: Config) -> Controller | FleetController | RemoteController:
    if wanted.controller is None:
        return (FleetController if len(wanted.engines) > 1 else Controller).from_config(wanted).start()
    return Controller.connect(wanted.controller, session_header=wanted.identity.header).start()


class _State:
    """What this process has made."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a law's own module may ask for a controller while one is made
        self.controllers: list[tuple[Config, Controller | FleetController | RemoteController]] = []
        self.inherited: list[object] = []
        """A parent's: kept, since what they hold may be in use in the parent when it is freed here."""
        self._prepared = False

    def prepare(self) -> None:
        """At first use, not at import, which does nothing."""
        if not self._prepared:
            self._prepared = True
            atexit.register(self.close)
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """A forked child has its parent's objects, but not the threads behind them; the lock may be held by one."""
        self.lock = threading.RLock()
        self.inherited.append(self.controllers)
        self.controllers = []

    def close(self) -> None:
        """The interpreter ends."""
        with self.lock:
            controllers, self.controllers = self.controllers, []
        for _, controller in controllers:
            controller.close(timeout=_PATIENCE)


_state = _State()
