"""The page is whole in itself, shows what there is, and says what is missing."""

import re
from html.parser import HTMLParser

import pytest

from benchmarks.swebench.arms import ARMS, meaning_of
from benchmarks.swebench.report.charts import draw_agents, draw_caps, draw_makespans, draw_parts, parts
from benchmarks.swebench.report.page import write_page
from benchmarks.swebench.report.theme import LIGHT, styled
from benchmarks.swebench.summary import summarise

LATENCY = {"queue_s": 10.0, "prefill_s": 40.0, "decode_s": 100.0}
CLOSING = {"latency": LATENCY, "engine": "SGLang 0.5.23", "engine_flags": ["--tp", "8"], "capacity_tokens": 1000}


class Page(HTMLParser):
    """The texts of a page, its open tags and where its sources lie."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.open, self.sources = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "srcset", "href")]
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def page(make_run, tmp_path):
    def write(arms, **config):
        folder = make_run(arms, **config)
        write_page([(folder, summarise(folder))], tmp_path / "page.html")
        found = Page((tmp_path / "page.html").read_text())
        assert found.open == []
        assert all(source.startswith("data:image/") for source in found.sources)
        return re.sub(r"\s+", " ", " ".join(found.texts)), found

    return write


@pytest.fixture
def whole(make_record, make_step, make_point):
    """An arm that got to its end, in so many seconds."""

    def arm(seconds, **closing):
        steps = (
            make_step(prompt=100, cached=0, output=10, tool_s=1.0),
            make_step(prompt=200, cached=50, output=10, started_s=1.0),
        )
        records = [make_record("001-a", ended_s=seconds, steps=steps, resolved=True)]
        points = [make_point(0.0), make_point(1.0, pinned_usage=0.4, occupied_usage=0.9, window=4.0)]
        return records, points, {**CLOSING, **closing}

    return arm


def test_it_says_what_was_won_with_its_interval(page, whole):
    text, found = page(
        {
            ("uncontrolled", 1): whole(20.0),
            ("uncontrolled", 2): whole(22.0),
            ("budget", 1): whole(10.0),
            ("budget", 2): whole(11.0),
        },
        agents=1,
        repeats=2,
    )
    said = r"With budget the batch ended 2.00 times as fast as without control \(95% interval 2.00..2.00 ?\)"
    assert re.search(said, text)
    for title in ("How long the batch took", "Where the agents' time went", "The engine over time", "Agents"):
        assert title in text
    assert "SGLang 0.5.23" in text
    assert "--tp 8" in text
    assert len(found.sources) == 2 * (3 + 2)  # each in two colours; an agents' chart for each arm


def test_somebody_who_never_heard_of_an_arm_is_told_what_it_is(page, whole):
    names = ["uncontrolled", "requests:4", "client-requests:3", "fixed:2", "concur", "budget", "hicache:fixed:8"]
    text, _ = page({(name, 1): whole(9.0) for name in names}, agents=1)
    assert all(meaning_of(name) in text for name in names)
    assert "at most 8 agents" in text.lower()
    assert "HiCache" in text


def test_what_may_have_set_the_pace_is_said_once_for_all_arms_it_is_true_of(page, whole):
    arms = {("uncontrolled", 1): 0.95, ("fixed:2", 1): 0.95, ("budget", 1): 0.5}
    text, _ = page({run: whole(9.0, machine_busy=busy) for run, busy in arms.items()}, agents=1)
    assert text.count("may have set the pace") == 1
    assert "uncontrolled, fixed:2: this machine's cores were 95% busy" in text


@pytest.mark.parametrize("kind", ARMS)
def test_every_kind_of_arm_has_a_meaning(kind):
    assert meaning_of(f"{kind}:8")


def test_no_gain_is_called_none(page, whole):
    arms = {("uncontrolled", 1): 20.0, ("uncontrolled", 2): 22.0, ("budget", 1): 19.0, ("budget", 2): 22.5}
    text, _ = page({run: whole(seconds) for run, seconds in arms.items()}, agents=1, repeats=2)
    assert "No arm was faster than without control" in text
    assert "times as fast" not in text


def test_what_was_interrupted_or_resumed_is_marked_and_compares_with_nothing(page, whole):
    records, points, _ = whole(5.0)
    text, _ = page(
        {
            ("uncontrolled", 1): whole(20.0),
            ("budget", 1): (records, points, None),
            ("fixed:2", 1): whole(10.0, resumed=True),
        },
        agents=1,
    )
    assert "times as fast" not in text
    assert ("interrupted" in text, "resumed" in text) == (True, True)


def test_a_run_in_which_nothing_has_happened_is_a_page_too(page):
    text, found = page({("budget", 1): ([], [], None)})
    assert "The run was interrupted" in text
    assert found.sources == []


def test_names_are_text_and_not_markup(page, whole):
    text, _ = page({("config:<script>.yaml", 1): whole(1.0)}, agents=1)
    assert "config:<script>.yaml" in text


def test_time_is_split_by_what_the_engine_told(whole, make_run):
    folder = make_run({("uncontrolled", 1): whole(20.0)}, agents=1)
    (run,) = summarise(folder)["arms"]["uncontrolled"]["repeats"]
    found = parts(run, speedup=10.0)
    # 250 tokens were computed, of which 60 had been in the agent's context of 110.
    assert found == pytest.approx(
        {"waits": 0, "queue": 1, "prefill": 4 * 190 / 250, "recomputed": 4 * 60 / 250, "decode": 10, "tool": 1}
    )
    # The engine had it for 15 s: what a reply took beyond that it waited in the proxy, if there was one.
    late = {**run, "generation_s": 40.0}
    assert parts(late, speedup=10.0) == found
    assert parts(late, speedup=10.0, proxied=True) == pytest.approx({**found, "waits": 25})
    assert parts({**run, "generation_s": 1.0}, speedup=10.0, proxied=True) == found
    assert parts({**run, "latency": None}, speedup=10.0) is None
    assert parts({**run, "recomputed_tokens": None}, speedup=10.0) is None


def test_caps_are_drawn_when_there_are_two(whole, make_run):
    arms = {("uncontrolled", 1): whole(20.0), ("fixed:2", 1): whole(12.0)}
    with styled(LIGHT):
        assert draw_caps(summarise(make_run(arms, agents=1)), LIGHT) is None


@pytest.mark.parametrize("names", [["fixed:2", "fixed:4"], ["fixed:2", "fixed:4", "budget", "concur", "uncontrolled"]])
def test_caps_with_and_without_laws(whole, make_run, names):
    summary = summarise(make_run({(name, 1): whole(9.0 + number) for number, name in enumerate(names)}, agents=1))
    with styled(LIGHT):
        (axes,) = draw_caps(summary, LIGHT).axes
        first, *others = [text.get_text() for text in axes.get_legend().get_texts()]
        assert (first, set(others)) == ("fixed cap", set(names[2:]))


def test_what_nobody_told_is_not_drawn(make_run, make_record):
    folder = make_run({("uncontrolled", 1): ([make_record()], [], None)})
    summary = summarise(folder)
    with styled(LIGHT):
        assert draw_makespans(summary, LIGHT) is None
        assert draw_parts(summary, LIGHT) is None
        assert draw_agents(folder, "uncontrolled", 2.0, LIGHT) is not None
