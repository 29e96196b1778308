"""What was measured is kept, and only beside its like."""

import dataclasses

import pytest

from benchmarks.lab.real.store import Store, Sweep

SWEEP = Sweep(prefill=((((100, 0), (50, 20)), 0.1),), decode=((2, 24, 4000, 0.5),))


def test_what_is_kept_is_read_again(make_store, make_run) -> None:
    store = make_store(make_run("concur", 1, 100.5, ended_s=(1.0, 100.5), others_cpu=0.01))
    store.add(SWEEP)
    store.predicted([make_run("concur", 0, 99.0, kind="prediction")])
    again = Store.load(store.path)
    assert again == store
    assert again.sweeps == [SWEEP]
    assert [len(again.runs), len(again.predictions)] == [1, 1]


def test_predictions_take_the_place_of_older_ones(make_store, make_run) -> None:
    old, new = (make_run("concur", 0, seconds, kind="prediction") for seconds in (99.0, 98.0))
    store = make_store(predictions=(old,))
    store.predicted([new])
    assert Store.load(store.path).predictions == [new]


def test_a_run_is_known_by_workload_arm_and_repeat(make_store, make_run) -> None:
    store = make_store(make_run("concur", 1, 100.0))
    assert store.has("swe", "concur", 1)
    assert not any((store.has("judge", "concur", 1), store.has("swe", "fixed:8", 1), store.has("swe", "concur", 2)))


def test_the_same_measurement_may_go_on(make_store, head, case_line) -> None:
    store = make_store()
    store.begin(dataclasses.replace(head, started="later"))
    store.begin_case(case_line)
    assert store.head == head


def test_another_engine_or_other_lengths_may_not_go_into_the_file(make_store, head, case_line) -> None:
    store = make_store()
    with pytest.raises(ValueError, match="another engine"):
        store.begin(dataclasses.replace(head, tick_s=2.0))
    with pytest.raises(ValueError, match="other lengths"):
        store.begin_case(dataclasses.replace(case_line, agents=6))


@pytest.mark.parametrize("text", ["{}", "not JSON", '{"kind":"run","workload":"swe"}'])
def test_another_file_is_refused_by_line(tmp_path, text) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(text + "\n")
    with pytest.raises(ValueError, match="line 1"):
        Store.load(path)
