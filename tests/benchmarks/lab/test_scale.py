"""What the controller costs is counted for every step and every tick; how much that is, is no test's business."""

from typer.testing import CliRunner

from benchmarks.lab.scale import app, measure


def test_every_step_and_every_tick_is_timed() -> None:
    cost = measure("judge", "qwen3-32b-tp2", 8)
    assert cost.steps > 8
    assert cost.ticks > 1
    assert cost.step_s > 0
    assert cost.tick_s > 0


def test_one_engine_is_shown_with_ever_more_agents_and_then_all_engines() -> None:
    shown = CliRunner().invoke(app, ["--agents", "8", "--engines", "2"]).output.splitlines()[1:]
    assert [line.split()[:2] for line in shown] == [["1", "1"], ["1", "2"], ["1", "8"], ["2", "8"]]
