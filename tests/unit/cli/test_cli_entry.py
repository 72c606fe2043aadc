"""For which command lines a reader is started before anything else."""

import pytest

from andon.cli.catalogue import COMMANDS
from andon.cli.entry import SAMPLING_COMMANDS, will_sample
from tests.support.rows import rows


@pytest.mark.parametrize(
    "args",
    [
        "",
        "run -- true",
        "run --gpus 2 -- python train.py --help",
        "status --json",
        "lease",
        "free",
        "run --simulate 2 -- true",
        "watch --replay file",
    ],
)
def test_a_command_that_looks_at_this_nodes_devices_has_a_reader_started(args: str) -> None:
    assert will_sample(args.split(), {})


@rows(
    "args",
    [
        "--help", "run --help", "run -h", "--version", "serve", "history", "nonsense",
        "status --url http://node7:26366", "status --url=http://node7:26366",
        "lease extend k7qm2 --for 1h",
    ],
)  # fmt: skip
def test_another_has_none(args: str) -> None:
    assert not will_sample(args.split(), {})


def test_completing_a_word_has_none() -> None:
    assert not will_sample(["run", "--", "true"], {"_ANDON_COMPLETE": "1"})
    assert will_sample(["run", "--", "true"], {"_ANDON_COMPLETE": ""})


def test_every_command_that_looks_is_a_command() -> None:
    assert set(COMMANDS) >= SAMPLING_COMMANDS
