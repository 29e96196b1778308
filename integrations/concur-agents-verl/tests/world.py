"""verl's own classes without Ray and GPUs, against the embedded engine over HTTP.

Real: the loops, the worker, the configuration, tokenization, tool parsing, the LLM clients and the load balancer.
Ours: the actor handles (:class:`Handle`, what Ray makes of an actor) and the rollout server (:class:`Server`), which
does over HTTP what verl's SGLang server does in its own process.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import hydra
import tokenizers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what verl and its libraries say when they are imported is not ours
    import torch
    import transformers
    import verl
    from verl.experimental.agent_loop import agent_loop
    from verl.protocol import DataProto
    from verl.tools.function_tool import FunctionTool, _build_schema_from_fn
    from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient, LLMServerClient
    from verl.workers.rollout.replica import TokenOutput
    from verl.workers.rollout.router import GlobalRequestLoadBalancer

    import concur_agents_verl

__all__ = [
    "DataProto",
    "FullyAsyncLLMServerClient",
    "Handle",
    "Server",
    "agent_loop",
    "client_of",
    "concur_agents_verl",
    "config_of",
    "make_loop",
    "make_tokenizer",
    "tool_of",
    "torch",
    "transformers",
]


TEMPLATE = """\
{%- if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or () %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
HEAD, END = "<|im_start|>assistant\n", "<|im_end|>"


def make_tokenizer() -> Any:
    """A token a byte, and a chat template in the manner of Qwen's."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(alphabet)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|pad|>"])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token="<|pad|>", chat_template=TEMPLATE
    )


def config_of(*overrides: str) -> Any:
    """The trainer's configuration as ``verl.trainer.main_ppo`` composes it."""
    folder = Path(verl.__file__).parent / "trainer" / "config"
    with hydra.initialize_config_dir(str(folder), version_base=None):
        return hydra.compose("ppo_trainer", list(overrides))


class Handle:
    """An actor of this process, called as Ray's are: ``await handle.method.remote(...)``."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        return _Method(getattr(self._actor, name))


class _Method:
    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def remote(self, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """Begin at once; nobody has to await it."""
        result = self._method(*args, **kwargs)
        if inspect.isawaitable(result):
            return asyncio.ensure_future(result)
        future = asyncio.get_running_loop().create_future()
        future.set_result(result)
        return future


class Server:
    """A rollout server.

    Args:
        url: of the engine.
        http: a client of the running event loop.
        tokenizer: the model's.
        reply: what the model says, by session and turn: its text, and the name and JSON arguments of each tool call.
        session_of: whose request it is, by ``request_id``. verl makes that up anew for each request, so that nobody can
            tell unless a test knows.
    """

    def __init__(
        self,
        url: str,
        http: httpx.AsyncClient,
        tokenizer: Any,
        reply: Callable[[str, int], tuple[str, Sequence[tuple[str, str]]]],
        session_of: Callable[[str], str],
    ) -> None:
        self._url = url
        self._http = http
        self._tokenizer = tokenizer
        self._reply = reply
        self._session_of = session_of
        self.weights = 0
        """Their version, as the trainer sets it."""
        self.interrupt_after: int | None = None
        """Tokens after which new weights interrupt the next generation."""

    async def generate(self, *, prompt_ids: list[int], request_id: str, **_: Any) -> Any:
        session = self._session_of(request_id)
        asked = self._tokenizer.decode(prompt_ids)
        text, calls = self._reply(session, asked.count(HEAD) - 1)
        text += "".join(f'<tool_call>{{"name": "{name}", "arguments": {args}}}</tool_call>' for name, args in calls)
        ids = self._tokenizer.encode(text + END)
        ids = ids[len(self._tokenizer.encode(asked.rpartition(HEAD)[2])) :]  # without what came before an interruption
        stop, self.interrupt_after = self.interrupt_after, None
        ids = ids[:stop]
        answer = await self._http.post(
            self._url + "/generate",
            headers={"X-Session-ID": session},
            json={
                "rid": request_id,
                "input_ids": prompt_ids,
                "sampling_params": {"max_new_tokens": len(ids), "custom_params": {"output_ids": ids}},
            },
        )
        answer.raise_for_status()
        result = answer.json()
        meta = result["meta_info"]
        return TokenOutput(
            token_ids=result["output_ids"],
            stop_reason=meta["finish_reason"]["type"] if stop is None else "abort",
            extra_fields={"global_steps": self.weights, "num_cached_tokens": meta["cached_tokens"]},
        )


def client_of(server: Any, config: Any, kind: type[Any] = LLMServerClient, address: str = "engine") -> Any:
    """verl's own client, and its own load balancer."""
    balancer = GlobalRequestLoadBalancer({address: Handle(server)})
    return kind(config, Handle(balancer))


def tool_of(does: Callable[[str], Any]) -> Any:
    """A function tool ``work(text)``. ``@function_tool`` would make the same, but keeps a name once in a process."""

    async def work(text: str) -> str:
        """Do some work.

        Args:
            text: What to do.
        """
        return await does(text)

    def blocking(text: str) -> str:
        return does(text)

    schema = _build_schema_from_fn(work, "work")
    is_async = inspect.iscoroutinefunction(does)
    return FunctionTool("work", work if is_async else blocking, schema, is_async)


def make_loop(kind: type[Any], client: Any, config: Any, tokenizer: Any, tools: list[Any], **options: Any) -> Any:
    """An agent loop as ``AgentLoopWorker`` makes it."""
    return kind(
        trainer_config=agent_loop.DictConfigWrap(config),
        server_manager=client,
        tokenizer=tokenizer,
        processor=None,
        hf_model_type="qwen2",
        dataset_cls=None,
        data_config=agent_loop.DictConfigWrap(config.data),
        tools=agent_loop.ToolListWrap(tools),
        **options,
    )
