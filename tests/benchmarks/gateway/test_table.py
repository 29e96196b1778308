"""The table says what the record says, and what is wrong with it."""

from __future__ import annotations

import json

import pytest

from benchmarks.gateway.table import clients, markdown, soaks


def rows(text):
    """Cells of each row below a heading, by the first."""
    lines = [line.removeprefix("|").removesuffix("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[2:]}


def test_every_arm_has_its_row_of_differences_and_ratios_within_repeats(record):
    table = rows(markdown(record))
    assert table["direct's title"][:4] == ["", "", "1.00 (1.00..1.00)", "50.00 (20.00..80.00)"]
    assert table["ids's title"] == [
        "1.50 (1.00..2.00)",
        "3.00 (2.00..4.00)",
        "0.15 (0.10..0.20)",
        "6.00 (4.00..8.00)",
        "400 (400..400)",
        "2,000 of 2,000",
        "2.25 (2.00..2.50)",
    ]
    assert list(table) == [f"{key}'s title" for key in ("direct", "nginx", "ids", "prefix", "peer")]


def test_a_record_that_went_through_a_file_makes_the_same_table(record):
    assert markdown(json.loads(json.dumps(record))) == markdown(record)


def test_the_stand_in_is_called_one_and_the_real_one_is_accounted_for(record):
    text = markdown(record)
    assert "stand-in" in text
    assert "dynamo.thunderagent_router" in text


def test_one_repeat_has_no_spread(record):
    for arm in record["arms"].values():
        del arm["repeats"][1:]
    record["settings"]["repeats"] = 1
    assert rows(markdown(record))["ids's title"][0] == "1.00"
    assert "One repeat" in markdown(record)


def test_small_ratios_are_not_shown_as_none(record):
    record["arms"]["peer"]["repeats"] = [record.repeat(per_s=16), record.repeat(per_s=16)]
    assert rows(markdown(record))["peer's title"][2] == "0.0015 (0.001..0.002)"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"failed": 2}, "- **Failed**: 4 requests, ids's title."),
        ({"whole": 990, "problems": {"other bytes": 10}}, "- **Lost**: 70 bytes of streams, ids's title (other bytes)"),
        ({"others": 0.2}, "- **Doubtful**: other programs used over 5% of the cores, ids's title."),
    ],
)
def test_what_went_wrong_stands_under_the_table(record, changed, said):
    assert "**" not in markdown(record)
    record["arms"]["ids"]["repeats"][1] = record.repeat(**changed)
    assert said in markdown(record)


def test_without_streams_their_columns_are_empty(record):
    for arm in record["arms"].values():
        for run in arm["repeats"]:
            run["streams"] = None
    record["settings"]["streams"] = 0
    text = markdown(record)
    assert rows(text)["ids's title"][-2:] == ["", ""]
    assert "Streams:" not in text


def test_client_libraries_stand_beside_the_fastest():
    found = {
        "slow": {"version": "1", "per_s": [10.0, 20.0]},
        "fast": {"version": "2", "per_s": [100.0, 100.0]},
    }
    table = rows("\n".join(clients(found, {"connections": 64})))
    assert table == {"fast 2": ["1.00 (1.00..1.00)"], "slow 1": ["0.15 (0.10..0.20)"]}


def sample(rss_mib, files, agents=0, arrived=0):
    return {"at_s": 1.0, "rss_kib": 1024 * rss_mib, "files": files, "agents": agents, "arrived": arrived}


SOAK = {
    "agents": 20_040,
    "requests": 60_120,
    "failed": 0,
    "idle_after_s": 45.0,
    "seconds": 180.0,
    "most_agents": 5_010,
    "before": sample(60, 9),
    "after": sample(81, 12),
    "growth": {
        "first": sample(80, 40),
        "last": sample(82, 41),
        "kib_per_1000_agents": 128.0,
        "files_per_1000_agents": 0.0,
    },
}


def test_a_soak_shows_first_last_after_and_slope():
    table = rows("\n".join(soaks({"ids": SOAK, "prefix": SOAK | {"growth": None}})))
    assert table["20,040, named"] == ["60,120", "0", "5,010", "0", "80.0", "82.0", "81.0", "+0.12", "40, 41, 12"]
    assert table["20,040, nothing said"][-2:] == ["?", "9, 12, 12"]


def test_all_that_a_record_holds_is_in_one_page(record):
    whole = record | {"clients": {"aiohttp": {"version": "3", "per_s": [5.0]}}, "soak": {"ids": SOAK}}
    text = markdown(whole)
    assert "client library" in text
    assert "20,040, named" in text
    assert markdown(record).splitlines() == text.splitlines()[: len(markdown(record).splitlines())]
