"""Context compression: a model call that no model-call hook sees."""

from __future__ import annotations

import pytest
from agentscope.agent import ContextConfig
from agentscope.message import UserMsg

HELLO = UserMsg(name="user", content="hello")
WORK = [("work", {"text": "x"})]
SUMMARY = [
    (
        "generate_structured_output",
        dict.fromkeys(
            ("task_overview", "current_state", "important_discoveries", "next_steps", "context_to_preserve"), "brief"
        ),
    )
]
SOON = ContextConfig(trigger_ratio=0.5, reserve_ratio=0.1)
LONG = UserMsg(name="user", content="word " * 3000)


@pytest.fixture
def small(make_model):
    """A model whose context a long message fills."""
    return make_model(context_size=4000)


async def test_a_summary_is_a_step_of_its_own_under_the_agents_name(engine, world, make_agent, small):
    engine.script("s", SUMMARY, "done")
    agent = make_agent("s", world, model=small, context_config=SOON)
    await agent.observe(LONG)
    assert (await agent.reply(HELLO)).get_text_content() == "done"
    assert "brief" in str(agent.state.summary)
    assert agent.model is small
    assert "generate_structured_output" not in vars(small)
    # The engine's script goes by turns, so the first reasoning says the same as the summary.
    assert world.lives() == {"s": ["admitted", *["paused", "resumed"] * 2, "paused", "completed"]}


async def test_what_a_summary_replaced_is_not_held_against_the_engine(engine, world, make_agent, small):
    """Its prompt has another prefix, and so has every one after it: nothing of the old context was evicted."""

    async def work(text: str) -> str:
        """Do some work.

        Args:
            text (str): what to do
        """
        return "word " * 800

    engine.script("s", WORK + SUMMARY, SUMMARY, "done", "done")
    agent = make_agent("s", world, work, model=small, context_config=SOON)
    await agent.observe(UserMsg(name="user", content="word " * 1200))
    await agent.reply(HELLO)
    assert "brief" in str(agent.state.summary)
    assert world.controller.stats().recomputed_tokens < 10  # where a reply meets the next prompt


async def test_no_step_where_no_summary_is_needed(engine, world, make_agent):
    engine.script("s", "done")
    agent = make_agent("s", world)
    await agent.compress_context()
    assert world.lives() == {}


async def test_compressing_between_replies_is_a_run_of_its_own(engine, world, make_agent, small):
    engine.script("s", SUMMARY)
    agent = make_agent("s", world, model=small, context_config=SOON)
    await agent.observe(LONG)
    await agent.compress_context()
    assert "brief" in str(agent.state.summary)
    assert world.lives() == {"s": ["admitted", "paused", "completed"]}


async def test_the_agent_may_ask_for_it_by_its_tool(engine, world, make_agent, small):
    """In a tool the agent is at a boundary; the summary is a step, and then it is at one again."""
    engine.script("s", [("CompressContext", {}), *SUMMARY], "done")
    asks = ContextConfig(trigger_ratio=0.9, context_buffer_ratio=0.5, reserve_ratio=0.1, compression_tool_enabled=True)
    agent = make_agent("s", world, model=small, context_config=asks)
    await agent.observe(UserMsg(name="user", content="word " * 2000))
    await agent.reply(HELLO)
    assert "brief" in str(agent.state.summary)
    assert world.lives() == {"s": ["admitted", *["paused", "resumed"] * 2, "paused", "completed"]}


async def test_a_summary_that_fails_is_cut_to_and_leaves_the_model(engine, world, make_agent, small):
    engine.script("s", "no structure")
    cut = ContextConfig(trigger_ratio=0.5, reserve_ratio=0.1, compression_fallback_to_truncation=True)
    agent = make_agent("s", world, model=small, context_config=cut)
    await agent.observe(LONG)
    await agent.reply(HELLO)
    assert agent.model is small
    # Tried again without the oldest messages.
    assert world.lives() == {"s": ["admitted", *["paused", "resumed"] * 2, "paused", "completed"]}
