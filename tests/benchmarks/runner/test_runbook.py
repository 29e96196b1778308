"""What the pages tell people to type can be typed."""

import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from benchmarks.swebench import cli
from benchmarks.swebench.presets import get_preset

PAGES = Path("benchmarks/swebench")


def lines():
    for page in ("README.md", "H100.md"):
        for line in (PAGES / page).read_text().splitlines():
            if line.startswith("    ") and "benchmarks.swebench " in line and "|" not in line:
                yield line.partition("#")[0].strip()


@pytest.mark.parametrize("line", tuple(lines()))
def test_a_command_line_is_parsed(line):
    arguments = shlex.split(line.partition("benchmarks.swebench ")[2])
    program = get_command(cli.app)
    name, *rest = arguments
    context = program.commands[name].make_context(name, rest, resilient_parsing=False)
    if preset := context.params.get("preset"):
        assert get_preset(preset)


def test_there_is_a_command_for_every_row_of_the_paper_on_one_machine():
    text = (PAGES / "H100.md").read_text()
    for cards in (2, 4, 8):
        assert f"--preset qwen3-32b-tp{cards}-b256\n" in text
