import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concur_agents.emulator import (
    CostModel,
    EngineConfig,
    FinishReason,
    QueueFullError,
    Request,
    Scheduler,
    StepKind,
    TooLongError,
)
from concur_agents.emulator.radix import pack

COST = CostModel(prefill_token_s=0.001, decode_base_s=0.01, decode_seq_s=0.001)


def engine(tokens: int = 1000, **fields: Any) -> Scheduler:
    return Scheduler(EngineConfig(max_total_tokens=tokens, **fields), COST)


def ids(count: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(100_000), k=count)


def ask(scheduler: Scheduler, prompt: list[int], out: int = 5, rid: str = "r", **options: Any) -> Request:
    request = Request(rid, pack(prompt), pack(ids(out, seed=-len(prompt) - out)), **options)
    scheduler.submit(request)
    return request


def drain(scheduler: Scheduler, *, limit_s: float = 0.0) -> list[Request]:
    """Step until idle, and check that the slots add up after every step."""
    ended: list[Request] = []
    while not scheduler.idle:
        ended += scheduler.step(limit_s=limit_s).finished
        cache = scheduler.cache
        assert min(cache.free, cache.evictable, cache.pinned) >= 0
        assert cache.free + cache.evictable + cache.pinned == cache.capacity
    assert scheduler.cache.pinned == 0
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
    assert scheduler.clock_s == pytest.approx(10 * 0.001 + 2 * 0.011)
    assert request.first_token_at == pytest.approx(0.01)
    assert request.finished_at == scheduler.clock_s


def test_the_next_turn_finds_prompt_and_output_but_the_last_token() -> None:
    scheduler = engine()
    first = ask(scheduler, ids(20), out=5)
    drain(scheduler)
    second = ask(scheduler, ids(20) + ids(5, seed=-25) + [1, 2, 3])
    drain(scheduler)
    assert (first.cached_tokens, second.cached_tokens) == (0, 24)


def test_a_repeated_prompt_computes_its_last_token_again() -> None:
    scheduler = engine()
    ask(scheduler, ids(20))
    drain(scheduler)
    again = ask(scheduler, ids(20))
    drain(scheduler)
    assert again.cached_tokens == 19


def test_requests_of_one_pass_do_not_see_each_other() -> None:
    scheduler = engine()
    both = [ask(scheduler, [*ids(20), n]) for n in (1, 2)]
    drain(scheduler)
    assert [request.cached_tokens for request in both] == [0, 0]
    assert scheduler.cache.evictable == 20 + 2 * 5, "their common prefix is kept once"


def test_a_long_prompt_is_prefilled_in_chunks() -> None:
    scheduler = engine(chunked_prefill_size=16)
    request = ask(scheduler, ids(40), out=1)
    durations = [scheduler.step().duration_s for _ in range(3)]
    assert durations == pytest.approx([0.016, 0.016, 0.008])
    assert (request.out, request.cached_tokens) == (1, 0)


def test_without_chunks_a_prompt_goes_in_one_pass() -> None:
    scheduler = engine(chunked_prefill_size=None, max_prefill_tokens=16)
    ask(scheduler, ids(40), out=1)
    ask(scheduler, ids(40, seed=1), out=1, rid="second")
    assert scheduler.step().duration_s == pytest.approx(0.04)
    assert scheduler.step().duration_s == pytest.approx(0.04)


def test_prefill_goes_before_decode() -> None:
    scheduler = engine()
    ask(scheduler, ids(10), out=50)
    scheduler.step()
    scheduler.step()
    ask(scheduler, ids(10, seed=1))
    assert scheduler.step().kind is StepKind.PREFILL


def test_the_queue_is_served_in_order() -> None:
    scheduler = engine(max_running_requests=1)
    for name in "abc":
        ask(scheduler, ids(10, seed=ord(name)), rid=name)
    assert [request.rid for request in drain(scheduler)] == ["a", "b", "c"]


def test_who_does_not_fit_waits_until_somebody_leaves() -> None:
    scheduler = engine(100)
    ask(scheduler, ids(50), out=20, ignore_eos=True)
    late = ask(scheduler, ids(50, seed=1), out=20, ignore_eos=True)
    scheduler.step()
    assert list(scheduler.waiting) == [late]
    assert len(drain(scheduler)) == 2


def overcommitted() -> tuple[Scheduler, list[Request]]:
    """Two requests that together outgrow the pool, the second admitted while the first runs."""
    scheduler = engine(120)
    first = ask(scheduler, ids(20), out=45, rid="first")
    scheduler.step()
    second = ask(scheduler, ids(20, seed=1), out=45, rid="second")
    drain(scheduler)
    return scheduler, [first, second]


def test_running_out_of_memory_retracts_who_has_least_output() -> None:
    scheduler, requests = overcommitted()
    assert [request.retractions for request in requests] == [0, 1]
    assert [request.out for request in requests] == [45, 45]
    assert scheduler.stats.retracted_requests == 1


def test_recomputation_after_a_retraction_counts_as_work_but_not_as_lookups() -> None:
    scheduler, requests = overcommitted()
    assert [request.cached_tokens for request in requests] == [0, 0]
    assert (scheduler.stats.effective_input, scheduler.stats.effective_hits) == (40, 0)
    assert scheduler.stats.prefill_compute + scheduler.stats.prefill_cache > 80


def test_max_new_tokens_cuts_the_output() -> None:
    scheduler = engine()
    request = ask(scheduler, ids(10), out=9, max_new_tokens=4)
    drain(scheduler)
    assert (request.out, request.finish_reason) == (4, FinishReason.LENGTH)


def test_no_output_at_all_still_fills_the_cache() -> None:
    scheduler = engine()
    request = ask(scheduler, ids(10), out=9, max_new_tokens=0)
    drain(scheduler)
    assert (request.out, request.finish_reason) == (0, FinishReason.LENGTH)
    assert scheduler.cache.evictable == 10


def test_output_is_bounded_by_what_the_pool_can_hold() -> None:
    scheduler = engine(100)
    request = ask(scheduler, ids(10), out=200)
    drain(scheduler)
    assert (request.out, request.finish_reason) == (88, FinishReason.LENGTH)


def test_a_waiting_request_is_aborted_at_once() -> None:
    scheduler = engine(max_running_requests=1)
    ask(scheduler, ids(10), rid="a")
    waiting = ask(scheduler, ids(10), rid="b")
    scheduler.step()
    assert scheduler.abort("b") == [waiting]
    assert (waiting.finish_reason, waiting.out) == (FinishReason.ABORT, 0)
    assert [request.rid for request in drain(scheduler)] == ["a"]


def test_a_running_request_is_aborted_by_its_next_pass_and_keeps_its_cache() -> None:
    scheduler = engine()
    request = ask(scheduler, ids(10), out=50)
    scheduler.step()
    assert scheduler.abort("r") == []
    assert scheduler.step().finished == [request]
    assert (request.finish_reason, request.out) == (FinishReason.ABORT, 2)
    assert scheduler.cache.evictable == 11


def test_an_abort_between_two_chunks_frees_everything() -> None:
    scheduler = engine(chunked_prefill_size=16)
    request = ask(scheduler, ids(40))
    scheduler.step()
    scheduler.abort(everything=True)
    assert drain(scheduler) == [request]
    assert (request.finish_reason, request.out) == (FinishReason.ABORT, 0)


def test_aborts_match_the_start_of_the_name() -> None:
    scheduler = engine()
    for name in ("job-1", "job-2", "other"):
        ask(scheduler, ids(10), rid=name)
    assert [request.rid for request in scheduler.abort("job-")] == ["job-1", "job-2"]


def test_an_ended_request_cannot_be_aborted() -> None:
    scheduler = engine()
    request = ask(scheduler, ids(10), out=2)
    drain(scheduler)
    assert not scheduler.abort_request(request)
    assert request.finish_reason is FinishReason.STOP


def test_a_prompt_beyond_the_context_is_refused() -> None:
    with pytest.raises(TooLongError, match=r"The input \(50 tokens\) is longer .* \(50 tokens\)"):
        ask(engine(context_length=50), ids(50))


def test_a_prompt_beyond_the_pool_is_refused() -> None:
    with pytest.raises(TooLongError, match=r"Input length \(60 tokens\) exceeds .* \(58 tokens\)"):
        ask(engine(64), ids(60))


def test_a_full_queue_refuses_more() -> None:
    scheduler = engine(max_queued_requests=1)
    ask(scheduler, ids(10))
    with pytest.raises(QueueFullError, match="The request queue is full"):
        ask(scheduler, ids(10))


def test_the_cache_is_flushed_only_when_idle() -> None:
    scheduler = engine()
    ask(scheduler, ids(10))
    assert not scheduler.flush()
    drain(scheduler)
    assert scheduler.flush()
    assert scheduler.cache.free == scheduler.cache.capacity


def test_a_restart_forgets_requests_and_cache() -> None:
    scheduler = engine()
    ask(scheduler, ids(10))
    scheduler.step()
    scheduler.restart()
    assert scheduler.idle
    assert scheduler.cache.free == scheduler.cache.capacity


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        Request("r", b"", b"")


CALLS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 60), st.integers(0, 60), st.booleans(), st.integers(0, 9)),
    min_size=1,
    max_size=25,
)
ENGINES = st.fixed_dictionaries(
    {
        "max_total_tokens": st.sampled_from([160, 240, 400]),
        "page_size": st.sampled_from([1, 4, 16]),
        "chunked_prefill_size": st.sampled_from([None, 16, 64]),
        "max_running_requests": st.sampled_from([1, 3, 100]),
    }
)


def run(fields: dict[str, int], calls: list[Any], limit_s: float) -> tuple[Any, ...]:
    """A workload with shared prefixes, arrivals between steps and aborts; what everybody got, and when."""
    scheduler = Scheduler(EngineConfig(**fields), COST)
    requests: list[Request] = []
    for family, length, out, ignore_eos, steps in calls:
        rid = f"{len(requests)}."
        prompt = ids(20, seed=family)[: length // 2 + 1] + ids(length // 2 + 1, seed=length + family)
        requests.append(ask(scheduler, prompt, out, rid, ignore_eos=ignore_eos, stops=bool(length % 2)))
        for _ in range(steps):
            scheduler.step()
        if steps == 7:
            scheduler.abort(rid)
    drain(scheduler, limit_s=limit_s)
    stats = scheduler.stats
    got = [(r.out, r.cached_tokens, r.finish_reason, r.retractions, r.finished_at) for r in requests]
    return got, scheduler.cache.evicted_total, stats.prefill_compute, stats.decode_tokens, stats.gauges


@settings(deadline=None)
@given(ENGINES, CALLS)
def test_whatever_comes_everybody_ends_and_no_slot_is_lost(fields: dict[str, int], calls: list[Any]) -> None:
    got, *_ = run(fields, calls, 0.0)
    assert all(reason is not None for _, _, reason, _, _ in got)
    assert all(
        out == wanted
        for (
            out,
            *_,
        ), (_, _, wanted, _, steps) in zip(got, calls, strict=True)
        if steps != 7 and out < 40
    )


@settings(deadline=None)
@given(ENGINES, CALLS)
def test_steps_taken_together_change_nothing(fields: dict[str, int], calls: list[Any]) -> None:
    (one, *rest), (other, *others) = run(fields, calls, 0.0), run(fields, calls, 1e9)
    assert [entry[:4] for entry in one] == [entry[:4] for entry in other]
    assert [entry[4] for entry in one] == pytest.approx([entry[4] for entry in other])
    assert rest[:3] == others[:3]


def test_steps_are_taken_together_up_to_the_limit() -> None:
    scheduler = engine()
    ask(scheduler, ids(10), out=100)
    scheduler.step()
    assert scheduler.step(limit_s=0.05).steps == 4  # of 11 ms each
    assert scheduler.step(limit_s=1e9).steps == 36, "a report is due after 40"
    assert scheduler.step(limit_s=1e9).steps == 40
    assert scheduler.step(limit_s=1e9).steps == 19, "then the request has its 100 tokens"
