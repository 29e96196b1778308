"""Agents on two engines, one of which dies under them."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

from concur_agents.testing.around import run_crowds
from concur_agents.testing.play import Play
from concur_agents.testing.scene import Scene
from concur_agents.testing.stage import Stage

__all__ = ["check_one_engine_dies"]


def check_one_engine_dies(play: Play, run: Callable[[Scene], Any], stream: Callable[[Scene], Any] | None) -> None:
    """Agents on both, all with the address of one engine; the other one dies while they are in a tool.

    Args:
        play: of the test.
        run: the adapter's.
        stream: the adapter's; None where it has none.

    Raises:
        AssertionError: a request went elsewhere than to its agent's engine, or an agent was lost.
    """
    mortal = Stage()
    play.with_engines(mortal)
    ways = [run] if stream is None else [run, _reading(stream)]
    scenes = [play.scene("block", "echo") for _ in range(4 * len(ways))]
    way_of = {scene.agent_id: ways[number % len(ways)] for number, scene in enumerate(scenes)}

    def kill() -> None:
        try:
            for scene in scenes:
                play.wait_for("tool", scene.agent_id)
        finally:
            mortal.close()
            play.free()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    if inspect.iscoroutinefunction(run):

        async def go(scene: Scene) -> Any:
            return await way_of[scene.agent_id](scene)

        run_crowds(play, go, [scenes])
    else:
        run_crowds(play, lambda scene: way_of[scene.agent_id](scene), [[scene] for scene in scenes])
    killer.join()
    assert not play.wrong, "; ".join(play.wrong)
    assert not play.controller.agents(), f"agents are left: {play.controller.agents()}"
    went = sorted("".join("x" if stage is mortal else "-" for stage in play.asked(each.agent_id)) for each in scenes)
    half = len(scenes) // 2
    assert went == ["---"] * half + ["x--"] * half, f"requests to the engine that died (x) and to the other: {went}"


def _reading(stream: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
    """A run that reads a stream to its end."""

    async def read(scene: Scene) -> None:
        async for _ in stream(scene):
            pass

    def read_blocking(scene: Scene) -> None:
        for _ in stream(scene):
            pass

    return read if inspect.isasyncgenfunction(stream) else read_blocking
