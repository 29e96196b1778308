"""What the emulator is fitted to."""

from __future__ import annotations

from benchmarks.lab.real.predict import points_of
from benchmarks.lab.real.store import Sweep


def test_of_several_calibrations_the_fastest_time_of_each_pass_counts() -> None:
    quiet = Sweep(prefill=((((100, 0),), 1.0), (((200, 0),), 2.5)), decode=((1, 24, 50, 0.3), (2, 24, 60, 0.5)))
    disturbed = Sweep(prefill=((((200, 0),), 2.0), (((100, 0),), 9.0)), decode=((2, 24, 60, 0.9), (2, 24, 900, 0.7)))
    for sweeps in ([quiet, disturbed], [disturbed, quiet]):
        points = points_of(sweeps)
        assert {point.shapes: point.seconds for point in points.prefill} == {((100, 0),): 1.0, ((200, 0),): 2.0}
        assert {(point.sequences, point.tokens): point.seconds for point in points.decode} == {
            (1, 50): 0.3,
            (2, 60): 0.5,
            (2, 900): 0.7,  # as many sequences that hold more are another pass
        }
