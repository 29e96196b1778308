"""A Hugging Face tokenizer folder, so that token ids equal a real server's. Needs ``tokenizers`` and ``jinja2``."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from concur_agents.emulator.radix import pack, unpack
from concur_agents.emulator.tokenizer import Reply, message_text

__all__ = ["HuggingFaceTokenizer"]


class HuggingFaceTokenizer:
    """Reads ``tokenizer.json`` and the chat template (``chat_template.jinja``, else in ``tokenizer_config.json``).

    Args:
        folder: the model's or tokenizer's folder.

    Raises:
        ValueError: when the folder lacks a file; says which.
        ImportError: without the two libraries; says what to install.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            jinja2: Any = importlib.import_module("jinja2")
            sandbox: Any = importlib.import_module("jinja2.sandbox")
            tokenizers: Any = importlib.import_module("tokenizers")
        except ImportError as missing:
            raise ImportError(f"{missing}; pip install tokenizers jinja2") from missing
        folder = Path(folder)
        if not (folder / "tokenizer.json").is_file():
            raise ValueError(f"{folder} has no tokenizer.json")
        config = _read_json(folder / "tokenizer_config.json")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._special = {
            name: _token_text(config.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")
        }
        special_ids = {number for number, token in self._tokenizer.get_added_tokens_decoder().items() if token.special}
        self._plain = sorted(set(self._tokenizer.get_vocab().values()) - special_ids)
        # The options are those transformers compiles chat templates with.
        environment = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        self._template_error: type[Exception] = jinja2.TemplateError
        self._template = environment.from_string(_chat_template(folder, config))
        self.system_anywhere = self._shows_later_system()

    def encode(self, text: str) -> bytes:
        """Ids of plain text, without special tokens added."""
        return pack(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: bytes) -> str:
        """Text of ids, without special tokens."""
        text: str = self._tokenizer.decode(unpack(tokens), skip_special_tokens=True)
        return text

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> bytes:
        """The chat template with a generation prompt."""
        return self.encode(self._apply(messages, tools, prompt=True))

    def render_reply(self, reply: Reply) -> bytes:
        """What the template makes of the reply, up to its end token."""
        calls = [
            {"type": "function", "function": {"name": name, "arguments": arguments}}
            for name, arguments in reply.tool_calls
        ]
        question = {"role": "user", "content": ""}
        answer = {"role": "assistant", "content": reply.content or "", "tool_calls": calls or None}
        before = self._apply([question], None, prompt=True)
        text = self._apply([question, answer], None, prompt=False)
        text = text.removeprefix(before) if text.startswith(before) else reply.content or ""
        end = self._special["eos_token"]
        if end and end in text:
            text = text[: text.rindex(end)]
        thought = f"<think>\n{reply.reasoning}\n</think>\n\n" if reply.reasoning else ""
        return self.encode(thought + text + end)

    def filler(self, count: int, seed: int) -> bytes:
        """Any ids but special ones."""
        return pack(random.Random(seed).choices(self._plain, k=count))

    def _shows_later_system(self) -> bool:
        mark = "a later system message"
        roles = {"system": "x", "user": "y"}
        first = [{"role": role, "content": text} for role, text in roles.items()]
        try:
            return mark in self._apply([*first, {"role": "system", "content": mark}, first[1]], None, prompt=False)
        except ValueError:
            return False

    def _apply(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None, *, prompt: bool
    ) -> str:
        try:
            text: str = self._template.render(
                messages=[_plain_message(message) for message in messages],
                tools=[_function_of(tool) for tool in tools] if tools else None,
                add_generation_prompt=prompt,
                **self._special,
            )
        except (self._template_error, TypeError, AttributeError) as problem:
            raise ValueError(f"the chat template refused: {problem}") from problem
        return text


def _plain_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """As SGLang hands it to the template: text in one piece, arguments as objects."""
    plain = {**message, "content": message_text(message)}
    if calls := message.get("tool_calls"):
        plain["tool_calls"] = [_plain_call(call) for call in calls]
    else:
        plain.pop("tool_calls", None)
    return plain


def _plain_call(call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise ValueError("every tool call must have a function")
    arguments = function.get("arguments") or "{}"
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError as problem:
            raise ValueError(f"tool call arguments must be JSON: {problem}") from problem
    return {**call, "function": {**function, "arguments": arguments}}


def _function_of(tool: Mapping[str, Any]) -> dict[str, Any]:
    """As SGLang's own tool object dumps it: known fields in the client's order, then those left out as nulls."""
    given = tool.get("function")
    if not isinstance(given, Mapping):
        raise ValueError("every tool must have a function")
    known = {"description", "name", "parameters", "strict"}
    function = {name: value for name, value in given.items() if name in known and (name, value) != ("strict", None)}
    for name in ("description", "parameters"):
        function.setdefault(name, None)
    return {"type": tool.get("type", "function"), "function": function, "defer_loading": None}


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    return data if isinstance(data, dict) else {}


def _token_text(token: Any) -> str:
    """A special token is written as text or as an object."""
    return str(token.get("content", "")) if isinstance(token, Mapping) else str(token or "")


def _chat_template(folder: Path, config: Mapping[str, Any]) -> str:
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    template = config.get("chat_template")
    if not isinstance(template, str):
        raise ValueError(f"{folder} has no chat template, in neither chat_template.jinja nor tokenizer_config.json")
    return template


def _to_json(value: Any, indent: int | None = None) -> str:
    """Unlike jinja's own, without HTML escapes."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    raise ValueError(message)
