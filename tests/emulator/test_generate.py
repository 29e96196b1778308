from typing import Any


async def generate(client: Any, **body: Any) -> Any:
    answer = await client.post("/generate", body)
    assert answer.status == 200, answer.text
    return answer


async def test_token_ids_are_continued(serve: Any) -> None:
    client = serve()
    reply = (await generate(client, input_ids=[1, 2, 3], rid="a", sampling_params={"max_new_tokens": 4})).json()
    meta = reply["meta_info"]
    assert len(reply["output_ids"]) == 4
    assert (meta["id"], meta["prompt_tokens"], meta["completion_tokens"], meta["cached_tokens"]) == ("a", 3, 4, 0)
    assert meta["finish_reason"] == {"type": "length", "length": 4}
    assert meta["cached_tokens_details"] is None


async def test_a_longer_prompt_finds_the_shorter_one(serve: Any) -> None:
    client = serve()
    first = (await generate(client, input_ids=[1, 2, 3], sampling_params={"max_new_tokens": 4})).json()
    longer = [1, 2, 3, *first["output_ids"], 9]
    meta = (await generate(client, input_ids=longer, sampling_params={"max_new_tokens": 1})).json()["meta_info"]
    assert meta["cached_tokens"] == 6
    assert meta["cached_tokens_details"] == {"device": 6, "host": 0}


async def test_text_is_continued_by_128_tokens_unless_said(serve: Any) -> None:
    reply = (await generate(serve(), text="hello")).json()
    assert (reply["meta_info"]["prompt_tokens"], reply["meta_info"]["completion_tokens"]) == (2, 128)


async def test_the_output_can_be_given(serve: Any) -> None:
    params = {"max_new_tokens": 3, "custom_params": {"output_ids": [7, 8, 9]}}
    assert (await generate(serve(), input_ids=[1], sampling_params=params)).json()["output_ids"] == [7, 8, 9]


async def test_several_prompts_are_one_batch(serve: Any) -> None:
    client = serve()
    body = {"input_ids": [[1, 2, 3, 4], [1, 2, 3, 5]], "sampling_params": [{"max_new_tokens": n} for n in (1, 2)]}
    replies = (await generate(client, **body, rid=["a", "b"])).json()
    assert [r["meta_info"]["completion_tokens"] for r in replies] == [1, 2]
    assert [r["meta_info"]["cached_tokens"] for r in replies] == [0, 0], "none saw the other"
    assert client.service.scheduler.stats.prefill_passes == 1


async def test_a_stream_repeats_the_text_so_far(serve: Any) -> None:
    client = serve()
    stream = await generate(client, text="hello", stream=True, sampling_params={"max_new_tokens": 3})
    events = stream.events()
    counts = [event["meta_info"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert counts[-1] == 3
    assert events[-1]["text"].startswith(events[0]["text"])
    assert [event["meta_info"]["finish_reason"] is None for event in events] == [True] * (len(events) - 1) + [False]


async def test_a_bad_prompt_leaves_no_other_of_its_batch_behind(serve: Any) -> None:
    client = serve()
    answer = await client.post("/generate", {"input_ids": [[1], [2]], "rid": ["same", "same"]})
    assert answer.status == 400
    assert answer.json() == {"error": {"message": "Duplicate request ID detected: same"}}
    assert client.service.scheduler.idle
