"""A model for the real engine: Qwen3's architecture, random weights, and a tokenizer of one token a word.

Run as a program it writes the folder that ``--model-path`` takes. It needs nothing but Python: a tokenizer and a
configuration are JSON, and the weights are made up by the engine (``--load-format dummy``).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.engines.words import WORDS

__all__ = ["SHAPE", "write_model"]

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ROLES = ("system", "user", "assistant")

SHAPE = {
    # Wide and shallow: prefill costs much (about 1 ms a token on one core) and decoding little, as on a GPU with
    # long contexts, so that a lost prefix is what hurts.
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 2,
    # Attention is kept small because this backend recomputes it over the whole length even where the prefix was
    # cached: with large attention a hit would save next to nothing.
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "vocab_size": 4096,
}

# ChatML without line breaks: between two special tokens there are a role and words, nothing else to tokenize.
TEMPLATE = (
    "{%- for m in messages -%}<|im_start|>{{ m.role }}{{ m.content or '' }}<|im_end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|im_start|>assistant{%- endif -%}"
)


def write_model(folder: Path) -> None:
    """Write config, tokenizer and chat template to ``folder``, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.json", _config()),
        ("generation_config.json", {"bos_token_id": 0, "eos_token_id": [2], "pad_token_id": 0, "do_sample": False}),
        ("tokenizer.json", _tokenizer()),
        ("tokenizer_config.json", _tokenizer_config()),
    ):
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")


def _config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_position_embeddings": 32_768,
        "max_window_layers": SHAPE["num_hidden_layers"],
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 1_000_000,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "use_cache": True,
        "use_sliding_window": False,
        **SHAPE,
    }


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 32_768,
    }


def _tokenizer() -> dict[str, Any]:
    """Byte-level BPE whose merges spell out the words first, then the roles in pieces of four letters.

    Four letters are one token of the emulator too, so a message has the same overhead there.
    """
    merges: dict[tuple[str, str], None] = {}
    for word in WORDS:
        letters = "Ġ" + word[1:]  # how byte-level BPE writes a space
        for end in range(1, 4):
            merges[letters[:end], letters[end]] = None
    for role in ROLES:
        for start in range(0, len(role), 4):
            left, right = role[start : start + 2], role[start + 2 : start + 4]
            for pair in (left, right, (left, right)):
                if len(pair) == 2 and all(pair):
                    merges[pair[0], pair[1]] = None
    tokens = [*SPECIAL, *_byte_letters(), *dict.fromkeys(a + b for a, b in merges)]
    ids = {token: number for number, token in enumerate(tokens)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": ids[token],
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in SPECIAL
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": ids,
            "merges": [list(pair) for pair in merges],
        },
    }


def _byte_letters() -> list[str]:
    """The letter that byte-level BPE uses for each byte: itself where printable, else one from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
