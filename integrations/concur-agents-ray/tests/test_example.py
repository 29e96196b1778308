"""The example's tasks, on the tests' cluster."""

import importlib.util
import sys
from pathlib import Path

import ray

import concur_agents_ray

EXAMPLE = Path(__file__).parents[3] / "examples" / "ray_tasks.py"


def test_the_examples_agents_end_on_both_engines(shared, monkeypatch):
    spec = importlib.util.spec_from_file_location("ray_tasks", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "ray_tasks", module)
    ray.cloudpickle.register_pickle_by_value(module)  # no package: tasks cannot import it
    concur_agents_ray.controller(engines=shared.urls)
    try:
        lines = ray.get([module.solve_all.remote([f"{task}-{agent}" for agent in range(3)]) for task in range(2)])
    finally:
        concur_agents_ray.shutdown()
    assert sorted(line.rpartition(" ")[2] for each in lines for line in each) == sorted(shared.urls * 3)
