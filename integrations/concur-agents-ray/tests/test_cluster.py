"""With Ray itself: tasks on several nodes, and whatever of it dies."""

import asyncio
import contextlib
import os
import signal

import openai
import pytest
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import concur_agents_ray
from concur_agents import AgentState, ConfigError
from concur_agents.emulator import Emulator

LEASE_S = 1.0


@ray.remote(num_cpus=0.1, max_retries=0)
def solve(name, agents, steps=3, inside=None):
    """A task that runs agents; ``inside`` is an actor that is told of each step, and may keep it."""
    concur = concur_agents_ray.controller(name=name, lease_s=LEASE_S)

    async def run(agent_id):
        engines = []
        async with concur.agent(agent_id) as agent:
            for _ in range(steps):
                async with agent.step() as step:
                    engines.append(concur.engine(agent_id))
                    if inside is not None:
                        await inside.step.remote(agent_id, os.getpid())
                    step.observe({"prompt_tokens": 100, "completion_tokens": 10})
        return engines

    async def main():
        return await asyncio.gather(*(run(agent) for agent in agents))

    return asyncio.run(main())


@ray.remote(num_cpus=0, max_concurrency=100)
class Gate:
    """Where agents are in their steps; closed, it keeps them there."""

    def __init__(self):
        self.open = asyncio.Event()
        self.steps, self.pids = {}, {}

    async def step(self, agent_id, pid):
        self.steps[agent_id] = self.steps.get(agent_id, 0) + 1
        self.pids[agent_id] = pid
        await self.open.wait()

    async def seen(self):
        return self.steps, self.pids

    async def free(self):
        self.open.set()


def finished(one):
    return {url: sum(stats.finished.values()) for url, stats in one.concur.stats().items()}


def test_nobody_makes_a_controller_without_an_engine(cluster, monkeypatch):
    monkeypatch.delenv("CONCUR_ENGINE_URL", raising=False)
    monkeypatch.delenv("CONCUR_CONFIG", raising=False)
    with pytest.raises(ConfigError, match="no engine is known"):
        concur_agents_ray.controller(name="nobody's")
    assert not [each for each in ray.util.list_named_actors(all_namespaces=True) if "nobody" in each["name"]]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"patience_s": 0}, "patience_s must be a finite number of seconds above 0, got 0"),
        ({"lease_s": float("inf")}, "lease_s must be .* got inf"),
        ({"in_flight_s": -1}, "in_flight_s must be .* got -1"),
        ({"name": ""}, "name must be"),
        ({"engines": []}, "at least one engine"),
    ],
)
def test_what_is_out_of_range_is_named(cluster, options, match):
    with pytest.raises((ValueError, ConfigError), match=match):
        concur_agents_ray.controller(**options)


def test_tasks_on_several_nodes_share_the_engines_and_leave_nothing(shared, second_node, until):
    before = finished(shared)
    places = [NodeAffinitySchedulingStrategy(each["NodeID"], soft=False) for each in ray.nodes() if each["Alive"]]
    assert len(places) == 2
    tasks = [
        solve.options(scheduling_strategy=place).remote(shared.name, [f"{number}-{agent}" for agent in range(6)])
        for number, place in enumerate(places)
    ]
    engines = [steps for each in ray.get(tasks, timeout=90) for steps in each]
    assert all(len(set(steps)) == 1 for steps in engines), "an agent stays where its prefix is"
    assert sorted(steps[0] for steps in engines) == sorted(shared.urls * 6)
    until(lambda: not shared.left())
    assert finished(shared) == {url: count + 6 for url, count in before.items()}


def test_the_window_holds_over_all_processes(shared, until):
    gate = Gate.remote()
    tasks = [solve.remote(shared.name, [f"{task}-{agent}" for agent in range(8)], 1, gate) for task in range(2)]
    until(lambda: _waiting(shared.concur) == 8 and len(ray.get(gate.seen.remote())[0]) == 8)
    assert [stats.population.seated for stats in shared.concur.stats().values()] == [4, 4]
    ray.get(gate.free.remote())
    assert [len(each) for each in ray.get(tasks, timeout=90)] == [8, 8]


@pytest.mark.parametrize("which", ["shard", "directory"])
def test_a_killed_actor_comes_back_and_nobody_is_lost(shared, until, which):
    gate = Gate.remote()
    task = solve.remote(shared.name, [f"agent-{number}" for number in range(12)], 3, gate)
    until(lambda: len(ray.get(gate.seen.remote())[0]) == 8)
    victim = shared.urls[0] if which == "shard" else None
    before = shared.pid(victim)
    os.kill(before, signal.SIGKILL)
    ray.get(gate.free.remote())
    assert [len(steps) for steps in ray.get(task, timeout=90)] == [3] * 12
    until(lambda: shared.pid(victim) != before)
    until(lambda: not shared.left())
    assert len(ray.get(solve.remote(shared.name, ["later"]), timeout=90)[0]) == 3


def test_agents_keep_their_seats_over_a_shards_restart(shared, until):
    async def main():
        async with shared.concur.agent("x") as agent:
            async with agent.step():
                url = shared.concur.engine("x")
                before = shared.pid(url)
                os.kill(before, signal.SIGKILL)
                await asyncio.to_thread(until, lambda: shared.pid(url) != before)
                await asyncio.to_thread(until, lambda: shared.left() == ["x"])
                assert shared.concur.view("x").state is AgentState.GENERATING
            async with agent.step():
                assert shared.concur.view("x").steps == 2

    asyncio.run(main())
    until(lambda: not shared.left())


def test_the_agents_of_a_killed_worker_end(shared, until):
    @ray.remote(num_cpus=0.1, max_retries=0)
    def stuck(name, gate):
        concur = concur_agents_ray.controller(name=name, lease_s=LEASE_S)
        with concur.sync.agent("stuck") as agent:
            with agent.step():
                pass
            concur.flush()
            ray.get(gate.step.remote("stuck", os.getpid()))

    gate = Gate.remote()
    task = stuck.remote(shared.name, gate)
    pid = until(lambda: ray.get(gate.seen.remote())[1].get("stuck"))
    assert shared.left() == ["stuck"]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(task, timeout=90)
    until(lambda: not shared.left())


def test_a_wrapped_client_sends_to_the_engine_that_its_agent_is_on(shared, until):
    async def main():
        async with openai.AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="none", max_retries=0) as client:
            llm = shared.concur.wrap_client(client)

            @shared.concur.agent(id_of=lambda name: name)
            async def solve(name):
                message = {"role": "user", "content": f"I am {name}"}
                for _ in range(2):
                    await llm.chat.completions.create(model="default", messages=[message], max_tokens=4)
                return shared.concur.engine(name)

            return await asyncio.gather(*(solve(f"agent-{number}") for number in range(4)))

    before = {url: stats.prompt_tokens for url, stats in shared.concur.stats().items()}
    assert sorted(asyncio.run(main())) == sorted(shared.urls * 2)
    until(lambda: not shared.left())
    assert all(stats.prompt_tokens > before[url] for url, stats in shared.concur.stats().items())


def test_who_comes_without_a_configuration_finds_what_there_is(shared, monkeypatch):
    monkeypatch.setenv("CONCUR_ENGINE_URL", "http://127.0.0.1:9")
    assert concur_agents_ray.controller(name=shared.name) is shared.concur
    assert concur_agents_ray.controller(name=shared.name, engines=shared.urls[:1]) is shared.concur
    assert set(shared.concur.engines) == {*shared.urls}


def test_another_configuration_needs_another_name(shared):
    with pytest.raises(ValueError, match="another configuration"):
        concur_agents_ray.controller({"law": "fixed:9"}, engines=shared.urls, name=shared.name)


def test_a_node_dies_with_the_actors_on_it_and_its_tasks_are_done_elsewhere(fleet, cluster, second_node, until):
    here, there = ray.get_runtime_context().get_node_id(), second_node.node_id
    kept = NodeAffinitySchedulingStrategy(here, soft=False)
    lost = NodeAffinitySchedulingStrategy(there, soft=True)
    one = fleet(actor_options={"scheduling_strategy": lost})
    gate = Gate.options(scheduling_strategy=kept).remote()
    tasks = [
        solve.options(scheduling_strategy=lost, max_retries=3).remote(one.name, ["lost-0", "lost-1"], 3, gate),
        solve.options(scheduling_strategy=kept).remote(one.name, ["kept-0", "kept-1", "kept-2"], 3, gate),
    ]
    until(lambda: len(ray.get(gate.seen.remote())[0]) == 5)
    victims = [url for url in (*one.urls, None) if one.stats(url)["node"] == there]
    assert victims
    cluster.remove_node(second_node, allow_graceful=False)
    ray.get(gate.free.remote())
    assert [len(each) for each in ray.get(tasks, timeout=110)] == [2, 3]
    until(lambda: there not in {one.stats(url)["node"] for url in victims})
    until(lambda: not one.left())


def test_agents_of_a_dead_engine_go_on_at_another_those_that_wait_at_once_and_new_engines_join(fleet, until):
    one = fleet(config={"law": "fixed:1"})
    concur, (dead, alive) = one.concur, one.urls

    async def main():
        async with asyncio.timeout(90):
            await concur.admit("one")
            await concur.admit("two")
            at = {concur.engine(name): name for name in ("one", "two")}
            waiting = [asyncio.create_task(concur.admit(f"waiting-{number}")) for number in range(2)]
            await asyncio.to_thread(until, lambda: _waiting(concur) == 2)
            one.emulators[0].__exit__(None, None, None)
            await asyncio.to_thread(until, lambda: dead not in concur.engines)
            concur.finish(at[alive])  # from now on its seat is handed on, from one to the next
            while waiting:
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                assert len(done) == 1
                waiting.remove(*done)
                (view,) = [each for each in concur.agents() if each.agent_id.startswith("waiting") and each.steps]
                assert concur.engine(view.agent_id) == alive
                concur.finish(view.agent_id)
            concur.pause(at[dead])
            await concur.resume(at[dead])
            assert concur.engine(at[dead]) == alive
            concur.finish(at[dead])
            concur.flush()

    asyncio.run(main())
    until(lambda: not one.left())
    one.emulators.append(Emulator().__enter__())
    concur_agents_ray.controller(name=one.name, engines=[one.emulators[-1].url])
    until(lambda: set(concur.engines) == {alive, one.emulators[-1].url})


def test_who_is_refused_a_connection_goes_on_elsewhere_before_anybody_says_so(fleet, until):
    one = fleet()
    directory, dead = one.pid(), one.emulators[0]

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            client = openai.AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="none", max_retries=0)
            llm = one.concur.wrap_client(await stack.enter_async_context(client))

            async def ask():
                message = {"role": "user", "content": "Go on."}
                await llm.chat.completions.create(model="default", messages=[message], max_tokens=4)

            agents = []
            for number in range(2):  # one at each engine
                agents.append(await stack.enter_async_context(one.concur.agent(f"agent-{number}")))
                await ask()
            os.kill(directory, signal.SIGSTOP)
            dead.__exit__(None, None, None)
            for agent in agents:
                with agent.inside():
                    with contextlib.suppress(openai.APIConnectionError):  # unless its shard has seen it first
                        await ask()
                    await ask()
                    assert one.concur.engine(agent.agent_id) == one.urls[1]

    try:
        asyncio.run(main())
    finally:
        os.kill(directory, signal.SIGCONT)


def _waiting(concur):
    return sum(stats.population.waiting for stats in concur.stats().values())


def test_a_shard_that_hangs_is_as_good_as_gone(fleet, until):
    one = fleet(1, patience_s=1.0)
    pid = one.pid(one.urls[0])

    async def main():
        async with one.concur.agent("x") as agent:
            async with agent.step():
                pass
            os.kill(pid, signal.SIGSTOP)
            try:
                async with asyncio.timeout(60):
                    for _ in range(3):
                        async with agent.step():
                            pass
            finally:
                os.kill(pid, signal.SIGCONT)

    asyncio.run(main())
    until(lambda: not one.left())
