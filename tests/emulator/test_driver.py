"""The driver on a loop with virtual time: exact, and without waiting."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from concur_agents.emulator import CostModel, EngineConfig, FinishReason, Request, Scheduler
from concur_agents.emulator.driver import Driver
from concur_agents.emulator.radix import pack

COST = CostModel(prefill_token_s=0.1, decode_base_s=1)
Run = Callable[[Any], Any]


def driver(speedup: float = 1.0, **fields: Any) -> Driver:
    return Driver(Scheduler(EngineConfig(max_total_tokens=1000, **fields), COST), speedup=speedup)


def request(rid: str = "r", out: int = 3, *, streaming: bool = False) -> Request:
    return Request(rid, pack(range(10)), pack([7] * out), streaming=streaming)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_result_comes_when_the_engine_would_have_it(virtually: Run) -> None:
    async def main() -> float:
        await driver().submit(request()).done.wait()
        return now()

    assert virtually(main()) == pytest.approx(1 + 2 * 1)


def test_a_speedup_divides_the_time(virtually: Run) -> None:
    async def main() -> float:
        await driver(speedup=10).submit(request()).done.wait()
        return now()

    assert virtually(main()) == pytest.approx(0.3)


def test_deadlines_do_not_drift(virtually: Run) -> None:
    async def main() -> list[float]:
        drive, ends = driver(speedup=7), []
        for _ in range(5):
            await drive.submit(request(out=50)).done.wait()
            ends.append(now())
            await asyncio.sleep(1)
        return ends

    first, *_, last = virtually(main())
    warm = (1 * 0.1 + 49) / 7  # all but one prompt token cached
    assert last - first == pytest.approx(4 * (1 + warm))


def test_an_idle_engine_has_no_task(virtually: Run) -> None:
    async def main() -> int:
        await driver().submit(request()).done.wait()
        await asyncio.sleep(0)
        return len(asyncio.all_tasks()) - 1

    assert virtually(main()) == 0


def test_an_arrival_during_a_pass_joins_the_next_one(virtually: Run) -> None:
    async def main() -> tuple[float | None, float | None]:
        drive = driver()
        first = drive.submit(request("a", out=5))
        await asyncio.sleep(1.5)
        second = drive.submit(request("b", out=1))
        await asyncio.gather(first.done.wait(), second.done.wait())
        return second.request.submitted_at, second.request.scheduled_at

    assert virtually(main()) == (pytest.approx(1.5), pytest.approx(2))


def test_a_stream_shows_its_tokens_as_they_come(virtually: Run) -> None:
    async def main() -> list[tuple[float, int]]:
        generation = driver().submit(request(streaming=True))
        return [(round(now(), 6), count) async for count in generation.progress()]

    assert virtually(main()) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_a_waiting_request_ends_at_its_abort(virtually: Run) -> None:
    async def main() -> tuple[float, FinishReason | None]:
        drive = driver(max_running_requests=1)
        drive.submit(request("a", out=50))
        second = drive.submit(request("b"))
        await asyncio.sleep(2.5)
        drive.abort("b")
        await second.done.wait()
        when = now()
        await drive.close()
        return when, second.request.finish_reason

    assert virtually(main()) == (2.5, FinishReason.ABORT)


def test_a_pause_holds_everything_until_resumed(virtually: Run) -> None:
    async def main() -> float:
        drive = driver()
        drive.pause()
        generation = drive.submit(request())
        await asyncio.sleep(100)
        assert not generation.done.is_set()
        drive.resume()
        await generation.done.wait()
        return now()

    assert virtually(main()) == pytest.approx(103)


def test_closing_ends_whoever_waits_or_runs(virtually: Run) -> None:
    async def main() -> list[FinishReason | None]:
        drive = driver(max_running_requests=1)
        both = [drive.submit(request(rid, out=50)) for rid in "ab"]
        await asyncio.sleep(2.5)
        await drive.close()
        assert all(one.done.is_set() for one in both)
        return [one.request.finish_reason for one in both]

    assert virtually(main()) == [FinishReason.ABORT, FinishReason.ABORT]


def test_a_broken_engine_fails_its_requests_and_goes_on(
    virtually: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> tuple[Request, Request]:
        drive = driver()
        with monkeypatch.context() as patch:
            patch.setattr(CostModel, "prefill_s", lambda *_: 1 / 0)
            broken = drive.submit(request("a"))
            await broken.done.wait()
        well = drive.submit(request("b"))
        await well.done.wait()
        return broken.request, well.request

    broken, well = virtually(main())
    assert broken.failed
    assert "ZeroDivisionError" in str(broken.abort_message)
    assert well.finish_reason is FinishReason.STOP
    assert "the emulated engine broke" in caplog.text


@pytest.mark.parametrize("speedup", [0, -1, float("inf")])
def test_an_impossible_speedup_is_refused(speedup: float) -> None:
    with pytest.raises(ValueError, match="speedup must be positive"):
        driver(speedup=speedup)
