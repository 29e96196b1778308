"""The arms are parsed from one string, and errors name what was wrong in it."""

import pytest

from benchmarks.engines.kinds import Needs
from benchmarks.swebench.arms import parse_arms
from concur_agents.laws import ConcurLaw, FixedWindow, TokenBudget, Uncontrolled


def laws(text):
    return [arm.law for arm in parse_arms(text)]


def test_the_default_arms_differ_only_in_their_law():
    assert laws("uncontrolled,fixed:8,concur") == [Uncontrolled(), FixedWindow(8), ConcurLaw()]


def test_parameters_stay_with_their_arm():
    assert laws("concur:alpha=4,beta=0.3,fixed:2") == [ConcurLaw(alpha=4, beta=0.3), FixedWindow(2)]


def test_a_token_budget_is_an_arm():
    assert laws("budget,budget:margin=0.1") == [TokenBudget(), TokenBudget(margin=0.1)]


def test_a_configuration_file_is_an_arm(tmp_path):
    file = tmp_path / "concur.yaml"
    file.write_text("law: {name: concur, alpha: 4}")
    assert laws(f"config:{file}") == [ConcurLaw(alpha=4)]


def test_a_request_cap_is_the_engines_or_the_clients():
    engines, clients = parse_arms("requests:8,client-requests:4")
    assert (engines.law, engines.needs, engines.open_requests) == (Uncontrolled(), Needs(max_running_requests=8), None)
    assert (clients.law, clients.needs, clients.open_requests) == (Uncontrolled(), Needs(), 4)
    assert clients.requests().total_tokens == 4


def test_host_memory_goes_with_any_arm():
    plain, capped, ours = parse_arms("hicache,hicache:requests:8,hicache:budget:margin=0.1")
    assert (plain.law, plain.needs.host_cache) == (Uncontrolled(), 2.0)
    assert capped.needs == Needs(max_running_requests=8, host_cache=2.0)
    assert (ours.name, ours.law) == ("hicache:budget:margin=0.1", TokenBudget(margin=0.1))


def test_an_arm_keeps_the_name_it_was_given():
    assert [arm.name for arm in parse_arms(" fixed:2 , concur:alpha=4,beta=0.3 ")] == [
        "fixed:2",
        "concur:alpha=4,beta=0.3",
    ]


def test_a_parsed_name_parses_to_the_same_arms():
    arms = parse_arms("concur:alpha=4,beta=0.3,fixed:2,uncontrolled")
    assert parse_arms(",".join(arm.name for arm in arms)) == arms


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no arm given"),
        (" , ", "no arm given"),
        (
            "turbo",
            "unknown arm 'turbo': choose from budget, client-requests, concur, config, fixed, hicache",
        ),
        ("alpha=4", "unknown arm 'alpha=4'"),
        ("fixed", "arm 'fixed' needs a number of agents"),
        ("fixed:many", "arm 'fixed:many' needs a number of agents"),
        ("fixed:0", "arm 'fixed:0' .*not 0"),
        ("requests:x", "arm 'requests:x' needs a number of requests"),
        ("client-requests:0", "arm 'client-requests:0' .*at least 1, not 0"),
        ("hicache:turbo", "unknown arm 'turbo'"),
        ("hicache:hicache", "arm 'hicache:hicache' .*once"),
        ("uncontrolled:3", "arm 'uncontrolled:3' takes no argument"),
        ("concur:alpha", "arm 'concur:alpha' needs key=number"),
        ("concur:alpha=big", "arm 'concur:alpha=big' needs key=number"),
        ("concur:gamma=2", "arm 'concur:gamma=2' has no such parameter: gamma"),
        ("config", "arm 'config' needs a file"),
        ("config:nowhere.yaml", "arm 'config:nowhere.yaml' .*nowhere.yaml"),
        ("concur:beta=2", "arm 'concur:beta=2' .*beta.*2"),
        ("concur,fixed:8,concur", "arm 'concur' is given twice"),
    ],
)
def test_what_cannot_be_read_is_named(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse_arms(text)
