"""How a command ended, as `andon run` tells it: memory of the host and of the device, signals."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.conftest import andon
from tests.integration.leasing import entries, records

PYTHON = sys.executable
CGROUPS = Path("/sys/fs/cgroup")
ROOM_BYTES = 64 << 20

pytestmark = pytest.mark.usefixtures("node", "own_places")


@pytest.fixture
def narrow() -> Iterator[Path]:
    """A control group with little memory: who writes his number into it has to make do."""
    first = CGROUPS / "memory" if (CGROUPS / "memory").is_dir() else CGROUPS
    group = first / f"andon-test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if first != CGROUPS else "memory.max"
    try:
        group.mkdir()
        (group / limit).write_text(str(ROOM_BYTES))
    except OSError as exc:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"a control group for memory cannot be made here: {exc}")
    yield group / "cgroup.procs"
    group.rmdir()


@pytest.mark.parametrize("how", ["exec {command}", "{command}; exit $?"])
def test_the_kernels_oom_killer_is_told_from_other_ends(
    narrow: Path, tmp_path: Path, how: str
) -> None:
    """The command itself is killed, or a child of it whose end it passes on."""
    greedy = f'{PYTHON} -c "print(len(bytearray(1 << 30)))"'
    confined = f"sh -c 'echo $$ > {narrow}; exec {greedy}'"
    done = andon("run", "--", "sh", "-c", how.format(command=confined))
    assert (done.code, done.out) == (137, "")
    assert "out of host memory (OOM killer)" in done.err
    [record] = records(tmp_path / "state")
    assert record[-1]["state"] == "host_out_of_memory"
    assert entries() == []


@pytest.mark.parametrize(
    ("arguments", "command", "code", "end", "words"),
    [
        ((), "kill -9 $$", 137, "signal", "ended by signal 9"),
        ((), "kill -SEGV $$", 139, "signal", "ended by signal 11"),
        (("--for", "100ms"), "sleep 1000", 143, "timeout", "expired: stopping the command"),
        ((), "exit 3", 3, "failed", ""),
    ],
)
def test_other_ends_are_told_and_recorded_each_as_its_own(
    arguments: tuple[str, ...], command: str, code: int, end: str, words: str, tmp_path: Path
) -> None:
    done = andon("run", *arguments, "--", "sh", "-c", command)
    assert done.code == code
    assert words in done.err
    more = [
        s for s in done.err.splitlines() if "running on" not in s and "andon runs report" not in s
    ]
    assert (more == []) == (words == "")
    [record] = records(tmp_path / "state")
    assert (record[-1]["exit_code"], record[-1]["state"]) == (code, end)
    assert entries() == []


def test_memory_before_the_run_is_not_told_as_memory_at_its_end() -> None:
    """A command that fails before its devices were read again."""
    failing = "import sys; sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to')"
    done = andon("run", "--", PYTHON, "-c", failing)
    assert "out of GPU memory: reported by PyTorch" in done.err
    assert " held 0 B" not in done.err


def test_each_retry_asks_for_half_as_much_again_of_a_shared_device(tmp_path: Path) -> None:
    """Of 140 GiB: 60, 90 and 135 can be had, and what comes next never."""
    failing = "import sys; sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to')"
    budget = ("--shared", "--memory", "60GiB", "--retry-oom", "5")
    done = andon("run", *budget, "--", PYTHON, "-c", failing)
    assert done.code == 1, "the command's own"
    assert "203 GiB are needed after 135 GiB, and no GPU here has more than 14" in done.err
    assert done.err.count("retrying with more memory") == 2
    assert len(records(tmp_path / "state")) == 3
    assert entries() == []
