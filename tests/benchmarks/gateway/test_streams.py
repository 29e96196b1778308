"""A stream counts as whole only if every byte is its own."""

from __future__ import annotations

import pytest

from benchmarks.gateway.streams import Stream, read_streams, summed
from benchmarks.gateway.stub import streamed

ALL = streamed("one")


@pytest.mark.parametrize(
    ("got", "problem", "whole", "lost", "named"),
    [
        (ALL, None, 1, 0, {}),
        (ALL[:-5], "ClientPayloadError", 0, 5, {"ClientPayloadError": 1}),
        (ALL, "TimeoutError", 0, 0, {"TimeoutError": 1}),
        (ALL[:-5], None, 0, 5, {"other bytes": 1}),
        (ALL + b"more", None, 0, 0, {"other bytes": 1}),
        (b"", "ClientConnectorError", 0, len(ALL), {"ClientConnectorError": 1}),
        (ALL[:10] + b"?" + ALL[11:], None, 0, len(ALL) - 10, {"other bytes": 1}),
    ],
    ids=["whole", "cut", "without its end", "short", "longer", "none", "other"],
)
def test_what_is_lost_is_counted(got, problem, whole, lost, named):
    arrived = summed([Stream(user="one", got=got, first_s=0.1 if got else None, problem=problem)], 1.0)
    assert (arrived.whole, arrived.lost_bytes, arrived.problems) == (whole, lost, named)
    assert arrived.bytes == len(ALL)


def test_streams_that_were_taken_for_each_other_are_not_whole():
    pair = [Stream(user=user, got=streamed(got), first_s=0.1) for user, got in (("a", "b"), ("b", "a"))]
    assert summed(pair, 1.0).whole == 0


@pytest.mark.parametrize("named", [True, False])
async def test_all_streams_of_an_engine_arrive(stub, named):
    arrived = await read_streams(stub.url, 20, names_agents=named)
    assert (arrived.whole, arrived.lost_bytes, arrived.problems) == (20, 0, {})
    assert any(b"X-Session-ID: stream-7\r\n" in head for head in stub.heads) == named


async def test_an_engine_that_is_not_there_is_told_of():
    arrived = await read_streams("http://127.0.0.1:1", 2, names_agents=True)
    assert (arrived.whole, arrived.first_p50_s) == (0, None)
    assert arrived.problems == {"ClientConnectorError": 2}
