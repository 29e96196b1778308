"""Runs in Dynamo's own environment, where nothing of ours is: an SGLang server elsewhere as one of Dynamo's workers.

usage: python worker.py ENGINE ENDPOINT MODEL_FOLDER MODEL_NAME BLOCK_SIZE

Dynamo starts its engines inside its workers; this one sends what its router routes to a server that runs, as token ids.
It says how large that server's KV pool is, since that is what the router admits by.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import uuid
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

CONNECT_S = 10.0


async def serve(runtime: Any) -> None:
    """Register, and serve until told to end."""
    engine, name, folder, model, block = sys.argv[1:6]
    llm = importlib.import_module("dynamo.llm")
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as client:
        async with client.get(f"{engine}/server_info") as response:
            info = await response.json()
        config = llm.ModelRuntimeConfig()
        config.total_kv_blocks = int(info["max_total_num_tokens"]) // int(block)
        endpoint = runtime.endpoint(name)
        await llm.register_model(
            llm.ModelInput.Tokens,
            llm.ModelType.Empty,  # the router is what clients find
            endpoint,
            folder,
            model,
            kv_cache_block_size=int(block),
            runtime_config=config,
            worker_type=llm.WorkerType.Aggregated,
        )

        async def generate(request: dict[str, Any], context: Any) -> AsyncIterator[dict[str, Any]]:
            async for output in _generated(client, engine, request):
                if context.is_stopped():  # its client has left
                    return
                yield output

        await endpoint.serve_endpoint(generate, graceful_shutdown=True)


async def _generated(
    client: aiohttp.ClientSession, engine: str, request: dict[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    wanted = (request.get("stop_conditions") or {}).get("max_tokens") or 1
    body = {
        "input_ids": request["token_ids"],
        "rid": uuid.uuid4().hex,
        "sampling_params": {"max_new_tokens": wanted, "ignore_eos": True, "temperature": 0},
        "stream": True,
    }
    told = 0
    async with client.post(f"{engine}/generate", json=body) as response:
        if response.status != 200:
            raise RuntimeError(f"the engine answered {response.status}: {(await response.text())[:500]}")
        async for line in response.content:
            data = line.decode().strip().removeprefix("data:")
            if not data or data.strip() == "[DONE]":
                continue
            event = json.loads(data)
            meta, ids = event["meta_info"], event["output_ids"]
            output: dict[str, Any] = {"token_ids": ids[told:]}
            told = len(ids)
            if meta["finish_reason"] is not None:
                prompt, completion = meta["prompt_tokens"], meta["completion_tokens"]
                output["finish_reason"] = "length" if meta["finish_reason"]["type"] == "length" else "cancelled"
                output["completion_usage"] = {
                    "prompt_tokens": prompt,
                    "completion_tokens": completion,
                    "total_tokens": prompt + completion,
                    "prompt_tokens_details": {"cached_tokens": meta["cached_tokens"]},
                }
            yield output


def main() -> None:
    """The program."""
    dynamo_worker = importlib.import_module("dynamo.runtime").dynamo_worker
    asyncio.run(dynamo_worker()(serve)())


if __name__ == "__main__":
    main()
