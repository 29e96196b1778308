"""One record of all frameworks: what is compared, and what is said of it."""

import pytest

from benchmarks.frameworks.environments import LINES
from benchmarks.frameworks.record import merged
from benchmarks.frameworks.table import markdown

LANGGRAPH, AGENTSCOPE_2, _ = LINES


def test_ratios_are_taken_within_a_run_and_compared_across_frameworks(make_run):
    data = merged(
        {
            LANGGRAPH: {
                1: make_run("langgraph", {"uncontrolled": 10.0, "concur": 5.0}),
                2: make_run("langgraph", {"concur": 10.0, "uncontrolled": 22.0}),
            },
            AGENTSCOPE_2: {
                1: make_run("agentscope", {"uncontrolled": 10.0, "concur": 4.0}),
                2: make_run("agentscope", {"concur": 8.0, "uncontrolled": 20.0}),
            },
        }
    )
    arm = data["frameworks"]["langgraph"]["arms"]["concur"]
    assert arm["ratio"] == {"median": 2.1, "min": 2.0, "max": 2.2}
    assert arm["makespans_s"] == [5.0, 10.0]
    assert data["ratios_apart"] == {"concur": pytest.approx(2.5 / 2.1 - 1)}
    assert "**not** within 5%" in markdown(data)


def test_agreement_is_said_plainly(make_run):
    arms = {"uncontrolled": 10.0, "concur": 5.0}
    data = merged({LANGGRAPH: {1: make_run("langgraph", arms)}, AGENTSCOPE_2: {1: make_run("agentscope", arms)}})
    text = markdown(data)
    assert "`concur`: the frameworks' speed-ups are within 5% of each other (0.0% apart)" in text
    assert "| AgentScope 2.x | `concur` | 5.0 | 2.00 (2.00..2.00) | 50% | 1,000 | 1 of 1 | 0 |" in text
    assert "LangGraph: langgraph 1.2.3" in text


def test_a_busy_machine_makes_it_doubtful(make_run):
    data = merged({LANGGRAPH: {1: make_run("langgraph", {"uncontrolled": 1.0})}})
    assert "Doubtful" not in markdown(data)
    data["frameworks"]["langgraph"]["arms"]["uncontrolled"]["machine_busy"] = 0.97
    assert "**Doubtful**: this machine's cores were over 90% busy (LangGraph)" in markdown(data)


def test_how_far_apart_the_prompts_of_a_task_are(make_run):
    arms = {"uncontrolled": 10.0}
    data = merged(
        {
            LANGGRAPH: {1: make_run("langgraph", arms, prompt=1000)},
            AGENTSCOPE_2: {1: make_run("agentscope", arms, prompt=1030)},
        }
    )
    assert data["prompts_apart"] == pytest.approx(0.03)


def test_a_repeat_that_one_framework_lacks_does_not_count(make_run):
    arms = {"uncontrolled": 10.0, "concur": 5.0}
    data = merged(
        {
            LANGGRAPH: {1: make_run("langgraph", arms), 2: make_run("langgraph", arms)},
            AGENTSCOPE_2: {1: make_run("agentscope", arms), 2: make_run("agentscope", arms, complete=False)},
        }
    )
    assert data["repeats"] == 1


def test_one_framework_alone_is_compared_with_nothing(make_run):
    data = merged({LANGGRAPH: {1: make_run("langgraph", {"uncontrolled": 10.0, "concur": 5.0})}})
    assert data["ratios_apart"] == {}


def test_nothing_whole_is_refused(make_run):
    with pytest.raises(ValueError, match="no repeat"):
        merged({LANGGRAPH: {1: make_run("langgraph", {"uncontrolled": 1.0}, complete=False)}})
    with pytest.raises(ValueError, match="no repeat"):
        merged({LANGGRAPH: {}})


def test_runs_of_other_work_are_refused(make_run):
    arms = {"uncontrolled": 10.0}
    runs = {
        LANGGRAPH: {1: make_run("langgraph", arms, seed=0)},
        AGENTSCOPE_2: {1: make_run("agentscope", arms, seed=1)},
    }
    with pytest.raises(ValueError, match="not of the same work"):
        merged(runs)


def test_a_record_names_no_engine_but_our_own(make_run):
    data = merged({LANGGRAPH: {1: make_run("langgraph", {"uncontrolled": 1.0}, engine="http://somewhere:1")}})
    assert data["config"]["engine"] == "url"
