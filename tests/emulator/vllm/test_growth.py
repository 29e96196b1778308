"""Blocks that decoding requests need, against counting them one by one."""

from hypothesis import given
from hypothesis import strategies as st

from concur_agents.emulator.request import Request
from concur_agents.emulator.vllm.growth import Growth

PAGE = 4


def holding(tokens: int) -> Request:
    request = Request("r", b"1234", b"")
    request.kv_tokens = tokens
    return request


def blocks(tokens: int) -> int:
    return -(-tokens // PAGE)


@given(
    held=st.lists(st.integers(1, 20), min_size=1),
    steps=st.lists(st.integers(0, 9), max_size=4),
    free=st.integers(0, 40),
)
def test_blocks_and_how_long_they_last_are_those_of_each_request(held: list[int], steps: list[int], free: int) -> None:
    growth, now = Growth(PAGE), list(held)
    for tokens in held:
        growth.join(holding(tokens))
    for count in steps:
        needed = sum(blocks(tokens + count) - blocks(tokens) for tokens in now)
        assert growth.blocks(count) == needed
        growth.advance(count)
        now = [tokens + count for tokens in now]
    lasts = growth.lasts(free, 1000)
    assert growth.blocks(lasts) <= free < growth.blocks(lasts + 1)
    assert growth.lasts(free, 1) == min(1, lasts)


def test_who_leaves_needs_no_more() -> None:
    growth, request = Growth(PAGE), holding(4)
    growth.join(holding(2))
    growth.join(request)
    growth.advance(1)
    assert growth.blocks(2) == 1
    growth.leave(request)
    assert (growth.blocks(1), growth.blocks(2), growth.blocks(4)) == (0, 1, 1)
