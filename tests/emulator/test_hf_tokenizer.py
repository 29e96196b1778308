import shutil
from pathlib import Path
from typing import Any

import pytest

from concur_agents.emulator.hf import HuggingFaceTokenizer
from concur_agents.emulator.radix import unpack
from concur_agents.emulator.tokenizer import Reply

pytest.importorskip("jinja2")

MODEL = Path(__file__).parent / "model"
ASK: list[Any] = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def tokenizer() -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(MODEL)


def test_text_comes_back(tokenizer: HuggingFaceTokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("h\u00e9llo")) == "h\u00e9llo"


def test_special_tokens_are_one_id_and_are_not_shown(tokenizer: HuggingFaceTokenizer) -> None:
    tokens = tokenizer.render(ASK, None)
    assert unpack(tokens)[0] == 3  # <|im_start|>
    assert tokenizer.decode(tokens) == "user\nhi\nassistant\n"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(content="Hello."),
        Reply(content="See:", tool_calls=(("bash", '{"cmd":"ls"}'), ("bash", "{}"))),
        Reply(tool_calls=(("bash", '{"cmd": "\u00e9"}'),)),
    ],
)
def test_a_generated_reply_is_what_the_next_prompt_shows(tokenizer: HuggingFaceTokenizer, reply: Reply) -> None:
    calls = [{"type": "function", "function": {"name": n, "arguments": a}} for n, a in reply.tool_calls]
    said = {"role": "assistant", "content": reply.content, "tool_calls": calls}
    after = tokenizer.render([*ASK, said, {"role": "user", "content": "go on"}], None)
    assert after.startswith(tokenizer.render(ASK, None) + tokenizer.render_reply(reply))


@pytest.mark.parametrize(
    ("template", "anywhere"),
    [
        ("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}", True),
        ("{{ messages[0].content }}{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}", False),
        ("{% for m in messages[1:] if m.role == 'system' %}{{ raise_exception('no') }}{% endfor %}", False),
    ],
)
def test_a_template_tells_whether_it_shows_later_system_messages(tmp_path: Path, template: str, anywhere: bool) -> None:
    shutil.copytree(MODEL, tmp_path, dirs_exist_ok=True)
    (tmp_path / "chat_template.jinja").write_text(template)
    assert HuggingFaceTokenizer(tmp_path).system_anywhere is anywhere


def test_filler_avoids_special_tokens_and_follows_the_seed(tokenizer: HuggingFaceTokenizer) -> None:
    ids = unpack(tokenizer.filler(500, 1))
    assert len(ids) == 500
    assert min(ids) > 5
    assert tokenizer.filler(500, 1) == tokenizer.filler(500, 1) != tokenizer.filler(500, 2)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}, "must be JSON"),
        ({"role": "assistant", "tool_calls": [5]}, "every tool call must have a function"),
        ({"role": "user", "content": 5}, "content must be"),
    ],
)
def test_an_unreadable_message_is_a_value_error(tokenizer: HuggingFaceTokenizer, message: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        tokenizer.render([message], None)


def test_a_template_that_refuses_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((MODEL / "tokenizer.json").read_bytes())
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('no system please') }}")
    with pytest.raises(ValueError, match="no system please"):
        HuggingFaceTokenizer(tmp_path).render(ASK, None)


def test_a_folder_without_its_files_says_which(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no tokenizer\.json"):
        HuggingFaceTokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((MODEL / "tokenizer.json").read_bytes())
    with pytest.raises(ValueError, match="has no chat template"):
        HuggingFaceTokenizer(tmp_path)
