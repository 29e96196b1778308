"""The scheduler: passes that mix prefill and decode, admission, preemption, and what is counted.

Facts are vLLM 0.32.0's; several are those its own tests of scheduler and block cache hold (``tests/v1/core``).
"""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concur_agents.emulator import CostModel, FinishReason, Request, StepKind, TooLongError
from concur_agents.emulator.radix import pack
from concur_agents.emulator.vllm import VllmConfig, VllmScheduler

COST = CostModel(prefill_base_s=0.02, prefill_token_s=0.001, decode_base_s=0.01, decode_seq_s=0.001)
FIELDS = {"page_size": 16, "context_length": 512, "max_batched_tokens": 256, "max_running_requests": 16}


def engine(blocks: int = 100, **fields: Any) -> VllmScheduler:
    """One with so many blocks for requests, and the null block."""
    given_ = FIELDS | fields
    return VllmScheduler(VllmConfig(max_total_tokens=(blocks + 1) * given_["page_size"], **given_), COST)


def ids(count: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(100_000), k=count)


def ask(scheduler: VllmScheduler, prompt: list[int], out: int = 5, rid: str = "r", **options: Any) -> Request:
    request = Request(rid, pack(prompt), pack(ids(out, seed=-len(prompt) - out)), **options)
    scheduler.submit(request)
    return request


def drain(scheduler: VllmScheduler, *, limit_s: float = 0.0) -> list[Request]:
    """Step until idle, and check after every step that nobody holds more than there is, and no more run than may."""
    ended: list[Request] = []
    for _ in range(10_000):
        if scheduler.idle:
            break
        ended += scheduler.step(limit_s=limit_s).finished
        cache = scheduler.cache
        assert 0 <= cache.cached_free <= cache.free <= cache.blocks
        assert len(scheduler.running) <= scheduler.config.max_running_requests
    assert scheduler.idle
    assert (scheduler.cache.free, scheduler.cache.usage) == (scheduler.cache.blocks, 0.0)
    return ended


def test_a_request_gets_its_output_a_token_a_step() -> None:
    scheduler = engine()
    request = ask(scheduler, ids(10), out=3)
    kinds = [scheduler.step().kind for _ in range(4)]
    assert kinds == [StepKind.PREFILL, StepKind.DECODE, StepKind.DECODE, StepKind.IDLE]
    assert (request.out, request.finish_reason) == (3, FinishReason.STOP)


def test_time_is_what_the_cost_model_says() -> None:
    scheduler = engine()
    request = ask(scheduler, ids(10), out=3)
    drain(scheduler)
    assert scheduler.clock_s == pytest.approx(0.02 + 10 * 0.001 + 2 * 0.011)
    assert request.first_token_at == pytest.approx(0.03)
    assert request.finished_at == scheduler.clock_s


def test_an_output_cut_off_ends_by_length() -> None:
    scheduler = engine()
    request = ask(scheduler, ids(10), out=5, max_new_tokens=3)
    longest = ask(scheduler, ids(500), out=50)
    drain(scheduler)
    assert (request.out, request.finish_reason) == (3, FinishReason.LENGTH)
    assert (longest.out, longest.finish_reason) == (12, FinishReason.LENGTH)


@pytest.mark.parametrize("prompt", [512, 513])
def test_a_prompt_that_leaves_no_room_for_a_token_is_refused(prompt: int) -> None:
    with pytest.raises(TooLongError, match="maximum model length of 512"):
        ask(engine(), ids(prompt))


# The cache


def test_the_next_turn_finds_the_full_blocks_of_prompt_and_output() -> None:
    scheduler = engine()
    ask(scheduler, ids(30), out=20)  # 49 tokens have KV: the last one was never an input
    drain(scheduler)
    second = ask(scheduler, ids(30) + ids(20, seed=-50) + [1, 2, 3])
    drain(scheduler)
    assert second.cached_tokens == 48


def test_of_a_prompt_all_cached_the_last_block_is_computed_again() -> None:
    scheduler = engine()
    ask(scheduler, ids(64))
    drain(scheduler)
    again = ask(scheduler, ids(64))
    assert scheduler.step().kind is StepKind.PREFILL
    assert (again.cached_tokens, scheduler.stats.prefill_tokens) == (48, 64 + 16)


def test_requests_of_one_pass_find_each_others_blocks() -> None:
    scheduler = engine()
    first, second = ask(scheduler, [*ids(40), 1]), ask(scheduler, [*ids(40), 2])
    scheduler.step()
    assert (first.cached_tokens, second.cached_tokens) == (0, 32)
    assert scheduler.cache.blocks - scheduler.cache.free == 4  # two shared blocks, and one each
    assert scheduler.stats.prefill_tokens == 41 + 9


def test_queries_and_hits_count_all_tokens_of_a_request_once_it_is_admitted() -> None:
    scheduler = engine(max_running_requests=1)
    ask(scheduler, ids(40))
    ask(scheduler, ids(40))
    scheduler.step()
    assert (scheduler.stats.prefix_cache_queries, scheduler.stats.prefix_cache_hits) == (40, 0)
    drain(scheduler)
    assert (scheduler.stats.prefix_cache_queries, scheduler.stats.prefix_cache_hits) == (80, 32)


def test_a_flush_empties_the_cache_once_nobody_runs() -> None:
    scheduler = engine()
    ask(scheduler, ids(64))
    scheduler.step()
    assert not scheduler.flush()
    drain(scheduler)
    assert scheduler.flush()
    again = ask(scheduler, ids(64))
    drain(scheduler)
    assert again.cached_tokens == 0


# One pass for prefill and decode


def test_a_long_prompt_is_cut_to_what_a_pass_has_room_for() -> None:
    scheduler = engine()
    ask(scheduler, ids(400), out=2)
    scheduler.step()
    assert (scheduler.stats.prefill_tokens, len(scheduler.running)) == (256, 1)
    scheduler.step()
    assert scheduler.stats.prefill_tokens == 400


def test_those_that_decode_go_first_and_a_cut_prompt_gets_the_rest() -> None:
    scheduler = engine()
    short = [ask(scheduler, ids(20, seed=n), out=10) for n in range(3)]
    scheduler.step()
    ask(scheduler, ids(400), out=2)
    result = scheduler.step()
    assert result.kind is StepKind.PREFILL
    assert [scheduler.output_len(request) for request in short] == [2, 2, 2]
    assert scheduler.stats.prefill_tokens == 60 + 256 - 3
    assert result.duration_s == pytest.approx(0.02 + 253 * 0.001 + 3 * 0.001)
    assert (scheduler.stats.passes, scheduler.stats.mixed_passes) == (2, 1)


def test_waiting_requests_join_in_order_until_the_pass_is_full() -> None:
    scheduler = engine()
    asked = [ask(scheduler, ids(100, seed=n), rid=str(n)) for n in range(4)]
    result = scheduler.step()
    assert list(result.advanced) == asked[:2]
    assert list(scheduler.running) == asked[:3]  # the third is cut to 56 tokens
    assert list(scheduler.waiting) == asked[3:]


def test_the_number_of_running_requests_is_bounded() -> None:
    scheduler = engine(max_running_requests=2)
    for n in range(3):
        ask(scheduler, ids(10, seed=n), out=4 + n)
    scheduler.step()
    assert (len(scheduler.running), len(scheduler.waiting)) == (2, 1)
    drain(scheduler)


def test_a_prompt_that_is_prefilled_to_its_end_still_counts_as_running() -> None:
    scheduler = engine(max_running_requests=2)
    ask(scheduler, ids(10), out=20)
    ask(scheduler, ids(300, seed=1), out=20)
    scheduler.step()
    third = ask(scheduler, ids(10, seed=2))
    scheduler.step()
    assert list(scheduler.waiting) == [third]


def test_a_request_waits_until_all_its_tokens_would_fit_and_holds_up_the_rest() -> None:
    scheduler = engine(blocks=32)
    ask(scheduler, ids(200), out=40)
    scheduler.step()
    ask(scheduler, ids(400, seed=1), rid="big")  # 25 blocks, 19 are free: not even its first chunk is let in
    ask(scheduler, ids(20, seed=2), rid="small")
    scheduler.step()
    assert [request.rid for request in scheduler.waiting] == ["big", "small"]
    drain(scheduler)
    assert scheduler.stats.preemptions == 0


def test_cached_blocks_that_nobody_holds_are_not_free_for_the_request_that_finds_them() -> None:
    scheduler = engine(blocks=32)
    ask(scheduler, ids(320), out=1)  # 20 blocks cached
    drain(scheduler)
    ask(scheduler, ids(190, seed=1), out=40)  # 12 blocks, so that none is blank
    scheduler.step()
    ask(scheduler, ids(336))  # 21 blocks, 20 of them cached and idle; 20 are free
    scheduler.step()
    assert len(scheduler.waiting) == 1


def test_a_watermark_keeps_blocks_free_while_something_runs() -> None:
    scheduler = engine(blocks=39, watermark=0.5)  # 20 of 40
    ask(scheduler, ids(300), out=30)  # 19 blocks: alone it may
    ask(scheduler, ids(20, seed=1))
    scheduler.step()
    assert (len(scheduler.running), len(scheduler.waiting)) == (1, 1)


# Preemption


def until_preempted(scheduler: VllmScheduler) -> None:
    for _ in range(100):
        if scheduler.stats.preemptions:
            return
        scheduler.step()
    raise AssertionError("nobody was preempted")


def crowded() -> tuple[VllmScheduler, list[Request]]:
    """Three requests whose prompts fill the pool: the first new block is one too many."""
    scheduler = engine(blocks=32)
    return scheduler, [ask(scheduler, ids(160, seed=n), out=60, rid=str(n)) for n in range(3)]


def test_when_no_block_is_left_the_last_to_join_is_preempted_and_goes_to_the_front() -> None:
    scheduler, asked = crowded()
    waits = ask(scheduler, ids(160, seed=9), rid="9")
    until_preempted(scheduler)
    assert list(scheduler.running) == asked[:2]
    assert list(scheduler.waiting) == [asked[2], waits]
    assert [scheduler.output_len(request) for request in asked] == [3, 2, 1]


def test_a_preempted_request_computes_again_what_is_not_cached_by_then_and_loses_no_token() -> None:
    scheduler, asked = crowded()
    drain(scheduler)
    assert [request.out for request in asked] == [60, 60, 60]
    assert asked[2].retractions == 1
    stats = scheduler.stats
    assert stats.prefill_tokens == 3 * 160 + stats.preempted_queries - stats.preempted_hits
    assert stats.preempted_hits > 0


def test_what_a_preempted_request_finds_again_counts_neither_as_query_nor_as_hit() -> None:
    scheduler, asked = crowded()
    drain(scheduler)
    assert scheduler.stats.retracted_requests == 1
    assert (scheduler.stats.prefix_cache_queries, scheduler.stats.prefix_cache_hits) == (480, 0)
    assert asked[2].cached_tokens == 0  # the client is told what its first admission found


def test_a_prompt_in_the_middle_of_its_prefill_is_preempted_first() -> None:
    scheduler = engine(blocks=32, max_batched_tokens=256)
    short = [ask(scheduler, ids(14, seed=n), out=15) for n in range(12)]
    scheduler.step()
    long = ask(scheduler, ids(310, seed=99), out=2)  # 20 blocks, just what is free
    passes = [scheduler.step() for _ in range(3)]  # a third token of those 12 begins a new block
    assert (long.retractions, list(scheduler.waiting)) == (1, [long])
    assert list(passes[-1].advanced) == short
    drain(scheduler)
    assert ({request.out for request in short}, long.out, scheduler.stats.preemptions) == ({15}, 2, 1)


def test_nobody_joins_in_a_pass_that_preempted() -> None:
    scheduler, asked = crowded()
    scheduler.step()
    scheduler.step()
    small = ask(scheduler, ids(1, seed=7), out=1)
    scheduler.step()
    assert (scheduler.stats.preemptions, list(scheduler.waiting)) == (1, [asked[2], small])


# Aborts


def test_an_abort_ends_a_running_request_at_once_and_keeps_its_blocks_cached() -> None:
    scheduler = engine()
    request = ask(scheduler, ids(64), rid="a")
    scheduler.step()
    assert scheduler.abort("a") == [request]
    assert scheduler.idle
    assert (request.finish_reason, scheduler.cache.free) == (FinishReason.ABORT, 100)
    assert scheduler.cache.cached_free == 4
    assert not scheduler.abort_request(request)


def test_an_abort_reaches_waiting_and_half_prefilled_requests() -> None:
    scheduler = engine(max_running_requests=1)
    half = ask(scheduler, ids(400), rid="a")
    waits = ask(scheduler, ids(10), rid="b")
    scheduler.step()
    assert scheduler.abort(everything=True) == [waits, half]
    assert scheduler.idle
    assert scheduler.cache.free == 100


def test_an_abort_makes_room_for_those_that_wait() -> None:
    scheduler = engine(max_running_requests=1)
    first, second = ask(scheduler, ids(10), out=100), ask(scheduler, ids(10, seed=1))
    scheduler.step()
    scheduler.abort_request(first)
    scheduler.step()
    assert list(scheduler.running) == [second]


def test_a_restart_forgets_everything() -> None:
    scheduler = engine()
    ask(scheduler, ids(64))
    scheduler.step()
    ask(scheduler, ids(64))
    scheduler.restart()
    assert scheduler.idle
    assert (scheduler.cache.free, scheduler.cache.cached_free) == (100, 0)


# Steps taken together


def outcome(scheduler: VllmScheduler, asked: list[Request]) -> Any:
    return (
        [(r.out, r.cached_tokens, r.retractions, r.finish_reason, round(r.finished_at or 0, 9)) for r in asked],
        scheduler.stats,
        scheduler.cache.evicted_total,
    )


REQUESTS = st.lists(
    st.tuples(st.integers(1, 200), st.integers(0, 120), st.integers(0, 3), st.integers(0, 100)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(requests=REQUESTS, blocks=st.integers(20, 60), batched=st.integers(4, 200))
def test_steps_taken_together_come_out_as_one_by_one_and_no_token_is_lost(
    requests: list[tuple[int, int, int, int]], blocks: int, batched: int
) -> None:
    outcomes = []
    for limit_s in (0.0, 0.1, 1e9):
        scheduler = engine(blocks, context_length=320, max_batched_tokens=batched, max_running_requests=4)
        asked = [
            ask(scheduler, ids(shared, seed=family) + ids(own, seed=number + 10), out=out)
            for number, (own, out, family, shared) in enumerate(requests)
        ]
        drain(scheduler, limit_s=limit_s)
        outcomes.append(outcome(scheduler, asked))
        stats = scheduler.stats
        assert [request.out for request in asked] == [min(out, 320 - own - sh) for own, out, _, sh in requests]
        assert stats.prefix_cache_queries == stats.prompt_tokens == sum(own + sh for own, _, _, sh in requests)
        assert stats.prefix_cache_hits == stats.cached_tokens
        assert stats.preemptions == sum(request.retractions for request in asked)
        assert stats.generation_tokens == sum(request.out for request in asked)
        if not stats.preemptions:
            assert stats.prefill_tokens == stats.prefix_cache_queries - stats.prefix_cache_hits
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_decode_steps_are_taken_together_until_somebody_ends() -> None:
    scheduler = engine()
    ask(scheduler, ids(10), out=30)
    ask(scheduler, ids(10, seed=1), out=50)
    scheduler.step()
    assert [scheduler.step(limit_s=1e9).steps for _ in range(2)] == [29, 20]


def test_decode_steps_are_taken_together_up_to_the_time_given() -> None:
    scheduler = engine()
    ask(scheduler, ids(10), out=50)
    scheduler.step()
    assert scheduler.step(limit_s=0.05).steps == 4  # of 11 ms each
