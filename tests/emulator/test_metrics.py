from typing import Any

from prometheus_client.parser import text_string_to_metric_families

CHAT = {"messages": [{"role": "user", "content": "hi"}], "ignore_eos": True}


async def page(client: Any) -> dict[str, float]:
    """Values by name, with the `mode` in brackets where there is one."""
    answer = await client.get("/metrics", accept="text/plain")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    values = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            mode = sample.labels.get("mode")
            values[sample.name.removeprefix("sglang:") + (f"[{mode}]" if mode else "")] = sample.value
    return values


async def chat(client: Any, **fields: Any) -> None:
    assert (await client.post("/v1/chat/completions", {**CHAT, **fields})).status == 200


async def test_a_new_engine_shows_an_empty_pool_and_its_size(serve: Any) -> None:
    values = await page(serve())
    assert (values["max_total_num_tokens"], values["num_running_reqs"], values["token_usage"]) == (4000, 0, 0)
    assert not {"evicted_tokens_total", "num_retracted_requests_total", "prompt_tokens_total"} & values.keys()


async def test_lookups_are_counted_at_once_and_requests_when_they_end(serve: Any) -> None:
    client = serve()
    await chat(client, max_tokens=2)
    await chat(client, max_tokens=2)
    values = await page(client)
    prompt = values["prompt_tokens_total"] / 2
    assert values["prefill_effective_tokens_total[input]"] == prompt + 1
    assert values["prefill_effective_tokens_total[device_hit]"] == prompt - 1
    assert values["cached_tokens_total"] == prompt - 1
    assert values["realtime_tokens_total[decode]"] == 2
    assert values["generation_tokens_total"] == 4
    assert values["cache_hit_rate"] == (prompt - 1) / prompt, "of the last prefill only"


def test_gauges_stand_still_between_reports(serve: Any, virtually: Any) -> None:
    import asyncio

    async def main() -> list[float]:
        client = serve(speedup=1, decode_log_interval=10)  # a step takes 10 ms
        task = asyncio.create_task(chat(client, max_tokens=100))
        readings = []
        for _ in range(6):
            await asyncio.sleep(0.04)
            readings.append((await page(client))["decode_sum_seq_lens"])
        await task
        return readings

    readings = virtually(main())
    assert readings == sorted(readings)
    assert len(set(readings)) == 3, readings


async def test_an_engine_that_falls_idle_says_so(serve: Any) -> None:
    client = serve()
    await chat(client, max_tokens=80)
    values = await page(client)
    assert (values["num_running_reqs"], values["kv_used_tokens"], values["gen_throughput"]) == (0, 0, 0)
    assert values["kv_evictable_tokens"] + values["kv_available_tokens"] == 4000


async def test_a_health_probe_zeroes_the_hit_rate_gauge(serve: Any) -> None:
    client = serve()
    await chat(client, max_tokens=1)
    await chat(client, max_tokens=1)
    assert (await page(client))["cache_hit_rate"] > 0.5
    await client.get("/health")
    assert (await page(client))["cache_hit_rate"] == 0


async def test_evictions_and_retractions_appear_with_the_first(serve: Any) -> None:
    client = serve(max_total_tokens=64)
    for number in range(6):
        await chat(client, messages=[{"role": "user", "content": f"{number} " * 60}], max_tokens=1)
    assert (await page(client))["evicted_tokens_total"] > 0


async def test_token_usage_is_rounded_and_its_twin_is_not(serve: Any) -> None:
    client = serve(max_total_tokens=7000)
    client.service.scheduler.stats.gauges.used = 111
    values = await page(client)
    assert (values["token_usage"], values["full_token_usage"]) == (0.02, 111 / 7000)


async def test_without_metrics_the_page_is_not_there(serve: Any) -> None:
    assert (await serve(enable_metrics=False).get("/metrics")).status == 404


async def test_open_metrics_is_spoken_to_who_asks(serve: Any) -> None:
    answer = await serve().get("/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
