"""Runs the scenarios of ``closed_loop.py`` on vLLM's own scheduler, without a model, and records what it does.

With the interpreter of an environment that has vLLM 0.32.0 (a CPU wheel will do; no GPU and no weights are needed):

    python tests/emulator/vllm/record_vllm.py tests/emulator/vllm/vllm-0.32.0.json

With ``--seeds N`` it runs the first N scenarios instead of the chosen ones.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from closed_loop import SEEDS, Scenario, Step, drive, scenario
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

MODEL = Path(__file__).parents[1] / "model"


class RealCore:
    """vLLM's scheduler, synchronous, with outputs from the script."""

    def __init__(self, plan: Scenario) -> None:
        scheduler = SchedulerConfig(
            max_num_seqs=plan.running,
            max_num_batched_tokens=plan.batched,
            max_model_len=plan.context,
            is_encoder_decoder=False,
            async_scheduling=False,
        )
        cache = CacheConfig(block_size=plan.page, enable_prefix_caching=True)
        model = ModelConfig(model=str(MODEL), skip_tokenizer_init=True, dtype="float32", max_model_len=4096)
        config = VllmConfig(scheduler_config=scheduler, model_config=model, cache_config=cache)
        cache.num_gpu_blocks = plan.blocks + 1
        spec = FullAttentionSpec(block_size=plan.page, num_kv_heads=1, head_size=1, dtype=torch.float32)
        groups = [KVCacheGroupSpec(["layer"], spec)]
        self.scheduler = Scheduler(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(num_blocks=plan.blocks + 1, kv_cache_tensors=[], kv_cache_groups=groups),
            structured_output_manager=StructuredOutputManager(config),
            block_size=plan.page,
            log_stats=True,
        )
        self.hasher = get_request_block_hasher(plan.page, sha256)
        self.requests: dict[str, Request] = {}
        self.outputs: dict[str, list[int]] = {}
        self.cached: dict[str, int] = {}
        self.counters = [0, 0, 0, 0]
        self.tokens = 0

    def submit(self, name: str, step: Step) -> None:
        sampling = SamplingParams(max_tokens=len(step.output), ignore_eos=True)
        request = Request(name, step.prompt, sampling, None, block_hasher=self.hasher)
        self.requests[name], self.outputs[name] = request, step.output
        self.scheduler.add_request(request)

    def idle(self) -> bool:
        return self.scheduler.get_num_unfinished_requests() == 0

    def forward(self) -> list[str]:
        plan = self.scheduler.schedule()
        names = list(plan.num_scheduled_tokens)
        self.tokens = sum(plan.num_scheduled_tokens.values())
        result = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[self._next(name) for name in names],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        ended = []
        for outputs in self.scheduler.update_from_output(plan, result).values():
            for output in outputs.outputs:
                if output.prefill_stats is not None:
                    self.cached[output.request_id] = output.prefill_stats.num_cached_tokens
                if output.finish_reason is not None:
                    ended.append(output.request_id)
            if outputs.scheduler_stats is not None:
                found = outputs.scheduler_stats.prefix_cache_stats
                new = (found.queries, found.hits, found.preempted_queries, found.preempted_hits)
                self.counters = [old + more for old, more in zip(self.counters, new, strict=True)]
        return ended

    def _next(self, name: str) -> list[int]:
        request = self.requests[name]
        all_computed = request.num_computed_tokens >= request.num_tokens
        return [self.outputs[name][request.num_output_tokens]] if all_computed else []

    def state(self) -> list[int]:
        scheduler = self.scheduler
        free = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        return [self.tokens, len(scheduler.running), len(scheduler.waiting), free]

    def outcome(self) -> dict[str, Any]:
        preempted = {name: request.num_preemptions for name, request in self.requests.items()}
        return {"cached": self.cached, "preempted": preempted, "counters": self.counters}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int)
    args = parser.parse_args()
    init_none_hash(sha256)
    seeds = SEEDS if args.seeds is None else range(args.seeds)
    outcomes = {str(seed): drive(plan, RealCore(plan)) for seed in seeds for plan in [scenario(seed)]}
    args.file.write_text(json.dumps(outcomes, separators=(",", ":")).replace('},"', '},\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
