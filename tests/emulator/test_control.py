import asyncio
from collections.abc import Callable
from typing import Any

import pytest

CHAT = {"messages": [{"role": "user", "content": "hi"}], "ignore_eos": True}


async def until(condition: Callable[[], object]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the loop has nothing left to do, and the condition does not hold")


async def start(client: Any, **fields: Any) -> asyncio.Task[Any]:
    """Begin a chat and let it reach the engine's queue."""
    before = len(client.service.driver._live)
    task = asyncio.create_task(client.post("/v1/chat/completions", {**CHAT, **fields}))
    await until(lambda: len(client.service.driver._live) > before)
    return task


async def test_models_names_the_one_there_is(serve: Any) -> None:
    model = (await serve().get("/v1/models")).json()["data"][0]
    assert (model["id"], model["owned_by"], model["max_model_len"]) == ("model", "sglang", 2000)


async def test_server_info_tells_the_capacity(serve: Any) -> None:
    client = serve()
    info = (await client.get("/server_info")).json()
    assert (info["max_total_num_tokens"], info["max_req_input_len"], info["version"]) == (4000, 1994, "0.5.23")
    assert info.keys() == (await client.get("/get_server_info")).json().keys()


async def test_health_answers_after_a_token_on_an_idle_engine(serve: Any) -> None:
    client = serve()
    for path in ("/health", "/health_generate"):
        answer = await client.get(path)
        assert (answer.status, answer.body) == (200, b"")
    assert client.service.scheduler.stats.prefill_passes == 2
    assert client.service.scheduler.stats.by_mode[False].requests == 0


async def test_health_disturbs_no_busy_engine(serve: Any) -> None:
    client = serve()
    client.service.driver.pause()
    task = await start(client, max_tokens=1)
    assert (await client.get("/health")).status == 200
    client.service.driver.resume()
    await task
    assert client.service.scheduler.stats.prefill_passes == 1


async def test_flush_empties_an_idle_cache(serve: Any) -> None:
    client = serve()
    for _ in range(2):
        reply = await client.post("/v1/chat/completions", {**CHAT, "max_tokens": 1})
        assert reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        answer = await client.post("/flush_cache")
        assert (answer.status, answer.text.splitlines()[0]) == (200, "Cache flushed.")


async def test_flush_is_refused_while_a_request_is_on_its_way(serve: Any) -> None:
    client = serve()
    client.service.driver.pause()
    task = await start(client, max_tokens=1)
    answer = await client.post("/flush_cache")
    assert (answer.status, answer.text) == (400, "Flush cache failed.\n")
    client.service.driver.resume()
    await task


def test_an_aborted_request_ends_well_with_reason_abort(serve: Any, virtually: Any) -> None:
    async def main() -> Any:
        client = serve(speedup=1)
        task = await start(client, rid="x", max_tokens=500)
        await asyncio.sleep(1)
        assert (await client.post("/abort_request", {"rid": "x"})).status == 200
        return await task

    answer = virtually(main())
    assert answer.status == 200
    assert answer.json()["choices"][0]["finish_reason"] == "abort"
    assert 0 < answer.json()["usage"]["completion_tokens"] < 500


async def test_aborted_in_the_queue_a_request_has_no_usage(serve: Any) -> None:
    client = serve()
    client.service.driver.pause()
    task = await start(client, rid="x")
    await client.post("/abort_request", {"abort_all": True})
    usage = (await task).json()["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (0, 0)


async def test_an_abort_needs_a_known_name(serve: Any) -> None:
    client = serve()
    client.service.driver.pause()
    task = await start(client, rid="job-1", max_tokens=1)
    for body in ({"rid": "job"}, {"rid": ""}, {}):
        assert (await client.post("/abort_request", body)).status == 200
    client.service.driver.resume()
    assert (await task).json()["choices"][0]["finish_reason"] == "length"
    assert client.service.scheduler.stats.aborted_requests == 0


async def test_a_name_in_use_is_refused(serve: Any) -> None:
    client = serve()
    client.service.driver.pause()
    task = await start(client, rid="x", max_tokens=1)
    answer = await client.post("/v1/chat/completions", {**CHAT, "rid": "x"})
    assert (answer.status, answer.json()["message"]) == (400, "Duplicate request ID detected: x")
    client.service.driver.resume()
    await task
    assert (await client.post("/v1/chat/completions", {**CHAT, "rid": "x", "max_tokens": 1})).status == 200


async def test_a_full_queue_answers_503(serve: Any) -> None:
    client = serve(max_queued_requests=1)
    client.service.driver.pause()
    task = await start(client, max_tokens=1)
    for path, body in (("/v1/chat/completions", CHAT), ("/generate", {"text": "hi"})):
        answer = await client.post(path, body)
        assert answer.status == 503
        assert answer.json() == {
            "object": "error",
            "message": "The request queue is full.",
            "type": "503",
            "param": None,
            "code": 503,
        }
    stream = await client.post("/v1/chat/completions", {**CHAT, "stream": True})
    assert (stream.status, stream.events()[0]["error"]["type"]) == (200, "SERVICE_UNAVAILABLE")
    client.service.driver.resume()
    assert (await task).status == 200


async def test_a_pause_holds_requests_until_it_is_over(serve: Any) -> None:
    client = serve()
    pause = await client.post("/pause_generation", {"mode": "in_place"})
    assert pause.json() == {"message": "Generation paused successfully.", "status": "ok"}
    task = await start(client, max_tokens=1)
    loads = (await client.get("/v1/loads")).json()["loads"][0]
    assert (loads["num_running_reqs"], loads["num_waiting_reqs"]) == (0, 1)
    await client.post("/continue_generation", {})
    assert (await task).status == 200


async def test_a_pause_that_aborts_ends_everything(serve: Any) -> None:
    client = serve()
    client.service.driver.pause()
    task = await start(client)
    assert (await client.post("/pause_generation", {"mode": "abort"})).status == 200
    assert (await task).json()["choices"][0]["finish_reason"] == "abort"


@pytest.mark.parametrize("stream", ["true", "false"])
def test_a_client_that_leaves_frees_its_place(serve: Any, virtually: Any, stream: str) -> None:
    async def main() -> tuple[Any, Any]:
        client, leave = serve(speedup=1), asyncio.Event()
        body = f'{{"messages": [{{"role": "user", "content": "hi"}}], "max_tokens": 900, "stream": {stream}}}'
        headers = {"content-type": "application/json"}
        call = client.call("POST", "/v1/chat/completions", body.encode(), headers, leave)
        task = asyncio.create_task(call)
        await asyncio.sleep(1)
        before = client.service.scheduler.cache.pinned
        leave.set()
        await task
        await asyncio.sleep(1)
        return before, client.service

    before, service = virtually(main())
    assert before > 50
    assert (service.scheduler.idle, service.scheduler.cache.pinned, service._rids) == (True, 0, set())
