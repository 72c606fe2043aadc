"""Every command line of the docs is run with simulated devices, or its page says why it is not."""

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import click
import pytest

from andon.cli.catalogue import COMMANDS, load
from tests.conftest import REPOSITORY
from tests.support.docs_blocks import Block, blocks

pytestmark = pytest.mark.process
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
BLOCKS = [block for page in PAGES for block in blocks(page)]
SHELL = frozenset("|<>&;$`")
READS_ONLY = frozenset({"--ssh"})
"""Refused, with what to type there, by commands that change something."""
STAND_INS = ("python", "torchrun", "vllm", "infer")
"""Programs that the docs start: here each ends at once, with 0."""
WELL, NO_SUCH_NAME = 0, 5
"""A lease k7qm2, a job 12 and a run kqz are examples: a command that says so has read its line."""
FILES = {
    "clips/a.wav": "", "a.wav": "", "ids.txt": "a\n", "rows.jsonl": '{"id": 1, "path": "a.wav"}\n',
    "job.toml": 'command = ["python", "train.py"]\nsimulate = 1\n',
}  # fmt: skip


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: f"{b.page.stem}-{b.line}")
def test_what_a_block_types_can_be_typed(block: Block) -> None:
    """Also what is not run: every command, option and value is one."""
    for line in block.typed:
        words = shlex.split(re.sub(r"^(?:sudo |[A-Z_]+=\S* )*", "", line))
        if words[0] != "andon" or SHELL & set(line) or READS_ONLY & set(words):
            continue
        if words[1:] and not words[1].startswith("-"):
            parse(words[1:])


def parse(words: list[str]) -> None:
    name, rest = words[0], words[1:]
    command = load(COMMANDS[name].target)
    while isinstance(command, click.Group) and rest:
        below = command.get_command(click.Context(command), rest[0])
        if below is None:
            break
        command, name, rest = below, rest[0], rest[1:]
    command.make_context(name, rest).close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    programs = folder / "programs"
    programs.mkdir()
    andon = f'exec {sys.executable} -m andon.cli "$@"'
    for name, does in {"andon": andon, **dict.fromkeys(STAND_INS, "exit 0")}.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    for name, text in FILES.items():
        path = folder / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "book").mkdir(mode=0o700)
    return folder


@cache
def ran(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """What a line does: once, on however many pages it stands."""
    own = {name: str(folder / name) for name in ("home", "state", "work")}
    environment = {
        "PATH": f"{folder / 'programs'}:{os.environ['PATH']}", "HOME": own["home"],
        "XDG_STATE_HOME": own["state"], "ANDON_LEASE_DIR": str(folder / "book"),
        "ANDON_SIMULATE": "4", "ANDON_SIMULATE_SCENARIO": "idle", "ANDON_JOBS_IDLE": "1s",
        "LANG": "C.UTF-8", "SHELL": "/bin/true", "COLUMNS": "100",
    }  # fmt: skip
    words = ["sh", "-c", line]
    if not SHELL & set(line) and line.startswith("andon"):
        words = [sys.executable, "-m", "andon.cli", *simulated(shlex.split(line)[1:])]
    else:
        words[2] = line if "--simulate" in line else line.replace("andon ", "andon --simulate 4 ")
    return subprocess.run(
        words, cwd=own["work"], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip


def simulated(words: list[str]) -> list[str]:
    """Leases on simulated devices are for those who ask for them in so many words."""
    return words if {"--simulate", "--replay"} & set(words) else ["--simulate", "4", *words]


@pytest.mark.parametrize(
    "block", [one for one in BLOCKS if any(map(one.runs, one.typed))],
    ids=lambda b: f"{b.page.stem}-{b.line}",
)  # fmt: skip
def test_a_block_is_run(place: Path, block: Block) -> None:
    for line in filter(block.runs, block.typed):
        done = ran(place, line)
        assert done.returncode in (WELL, NO_SUCH_NAME), f"{line}\n{done.stdout}{done.stderr}"
        if done.returncode == NO_SUCH_NAME:
            assert "there is no" in done.stderr or "there are no" in done.stderr


def test_most_of_what_the_docs_type_about_one_machine_is_run() -> None:
    lines = {line: block.runs(line) for block in BLOCKS for line in block.typed}
    assert sum(lines.values()) > 70
    assert len(BLOCKS) > 100
