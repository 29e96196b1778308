"""The vocabulary, and the model's tokenizer that must agree with it."""

import json
from random import Random

import pytest
from tokenizers import Tokenizer

from benchmarks.engines.sglang_cpu.model import write_model
from benchmarks.engines.words import WORDS, text
from concur_agents.emulator.tokenizer import ByteTokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder):
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def rendered(messages):
    """What the model's chat template makes of messages."""
    return "".join(f"<|im_start|>{m['role']}{m['content']}<|im_end|>" for m in messages) + "<|im_start|>assistant"


def test_words_are_different_and_of_four_bytes():
    assert len(set(WORDS)) == len(WORDS) == 2000
    assert {len(word.encode()) for word in WORDS} == {4}


def test_text_has_as_many_words_as_asked_and_comes_from_its_generator_alone():
    assert text(Random(1), 50) == text(Random(1), 50) != text(Random(2), 50)
    assert text(Random(1), 50).count(" ") == 50
    assert text(Random(1), 0) == ""


def test_every_word_is_one_token_and_comes_back_as_itself(tokenizer):
    for word in WORDS:
        ids = tokenizer.encode(word).ids
        assert len(ids) == 1
        assert tokenizer.decode(ids) == word


def test_text_from_tokens_turns_back_into_the_same_tokens(tokenizer):
    ids = tokenizer.encode(text(Random(3), 500)).ids
    assert len(ids) == 500
    assert tokenizer.encode(tokenizer.decode(ids)).ids == ids


def test_a_chat_has_as_many_tokens_as_in_the_emulator(tokenizer):
    rng = Random(4)
    messages = [
        {"role": role, "content": text(rng, count)}
        for role, count in (("system", 12), ("user", 30), ("assistant", 5), ("user", 7))
    ]
    emulated = ByteTokenizer().render(messages, None)
    assert len(tokenizer.encode(rendered(messages)).ids) == len(emulated) // 4


def test_a_longer_chat_begins_with_the_tokens_of_the_shorter_one_and_its_reply(tokenizer):
    rng = Random(5)
    chat = [{"role": "system", "content": text(rng, 9)}, {"role": "user", "content": text(rng, 20)}]
    reply = text(rng, 6)
    before = tokenizer.encode(rendered(chat)).ids + tokenizer.encode(reply).ids
    chat += [{"role": "assistant", "content": reply}, {"role": "user", "content": text(rng, 8)}]
    assert tokenizer.encode(rendered(chat)).ids[: len(before)] == before


def test_template_says_what_the_tests_render(folder):
    template = (folder / "chat_template.jinja").read_text()
    assert "<|im_start|>{{ m.role }}{{ m.content or '' }}<|im_end|>" in template
    assert template.endswith("{%- if add_generation_prompt -%}<|im_start|>assistant{%- endif -%}")


def test_vocabulary_fits_the_models_embedding(folder, tokenizer):
    config = json.loads((folder / "config.json").read_text())
    assert tokenizer.get_vocab_size() <= config["vocab_size"]
    assert config["eos_token_id"] == tokenizer.token_to_id("<|im_end|>")
