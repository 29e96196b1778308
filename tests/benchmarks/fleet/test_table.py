"""The figures beside each other."""

from __future__ import annotations

from benchmarks.fleet.real.record import Record, Share
from benchmarks.fleet.real.table import markdown


def cells(text: str, arm: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(f"| `{arm}` |")).strip("| ").split(" | ")


def test_makespans_are_compared_within_a_repeat(make_record, make_run) -> None:
    runs = [make_run("front", 1, 200.0), make_run("front", 2, 330.0)]
    runs += [make_run("sticky", 1, 150.0), make_run("sticky", 2, 150.0)]
    runs += [make_run("gateway", 1, 100.0), make_run("gateway", 2, 110.0)]
    text = markdown(make_record(*runs).data())
    assert text.startswith("| arm | makespan s | over `front` | over `sticky` | hit rate |")
    assert cells(text, "gateway")[:4] == [
        "`gateway`",
        "105.0 (100.0..110.0)",
        "2.50 (2.00..3.00)",
        "1.43 (1.36..1.50)",
    ]
    assert cells(text, "front")[2] == "1.00"
    assert "96 agents of `swe`" in text
    assert "3.0 times the pools of 2 servers together" in text


def test_each_server_is_shown_and_the_busier_one_against_the_mean(make_record, make_run) -> None:
    text = markdown(make_record(make_run("front", 1, 200.0)).data())
    assert cells(text, "front")[4:7] == ["50.0% 90.0%", "1.50", "1,000"]
    idle = (Share(prompt_tokens=0.0, hit_tokens=0.0),) * 2
    assert cells(markdown(make_record(make_run("front", 1, 200.0, servers=idle)).data()), "front")[5] == "0.00"


def test_a_disturbed_run_is_left_out_and_named(make_record, make_run) -> None:
    runs = [make_run("front", 1, 200.0), make_run("gateway", 1, 100.0, others_cpu=0.11, lost=3)]
    text = markdown(make_record(*runs).data())
    assert cells(text, "gateway")[1:4] == ["?", "?", "?"]
    assert cells(text, "gateway")[-1] == "0"
    assert "- gateway, repeat 1: other programs used 11% of all cores" in text


def test_agents_that_were_lost_are_counted_over_the_repeats(make_record, make_run) -> None:
    text = markdown(make_record(make_run("front", 1, 200.0, lost=2), make_run("front", 2, 200.0, lost=1)).data())
    assert cells(text, "front")[-1] == "3"


def test_a_record_of_nothing_is_a_table_without_rows() -> None:
    assert len(markdown(Record().data()).splitlines()) == 3
