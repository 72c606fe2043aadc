"""What another user of the machine says: the kernel quotes it, and his processes carry it."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.events.kernel_log import KernelLog
from andon.model.device import NAMES_MISSING, State
from andon.sampling.sampler import Sampler
from tests.conftest import need
from tests.integration.conftest import andon, states, until
from tests.standin import StandIn, StandInProcess

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
FORGED = "NVRM: Xid (PCI:0000:f0:00): 79"


def quoted_by_the_kernel(words: str) -> None:
    """As nobody: a mount that fails, in namespaces of its own, leaves these words in the log."""
    mount = ["mount", "-t", "tmpfs", "-o", words, "x", "/tmp"]
    subprocess.run([*NOBODY, "unshare", "-Urm", *mount], capture_output=True, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="reading the kernel's log as root, forging as nobody")
def test_nobody_forges_an_xid_in_this_machines_own_log() -> None:
    need("setpriv", "unshare", "mount")
    log, seen = KernelLog(Path("/")), KernelLog(Path("/"))
    assert log.reason is None
    for words in (FORGED, f"a\n{FORGED}", f"\n3,1,1,-;{FORGED}"):
        quoted_by_the_kernel(words)
    records = "\n".join(seen._records())
    seen.close()
    if FORGED not in records:
        pytest.skip("no user namespaces here: the kernel quotes nobody")
    assert log.read() == []
    log.close()


@contextlib.contextmanager
def processes(count: int, words: str) -> Iterator[Sequence[int]]:
    """So many of nobody's, with these words in their command lines."""
    command = [*NOBODY, "sh", "-c", "read x", "sh", words]
    if os.geteuid() != 0:
        command = command[len(NOBODY) :]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.communicate()


@pytest.mark.parametrize("words", ["://a:" * 1600, "&sig=x" * 1300, "a=" * 4000, "eyJ-" * 2000])
def test_forty_hostile_command_lines_are_not_a_driver_that_hangs(
    node: StandIn, sampler: Sampler, words: str
) -> None:
    with processes(40, words) as pids:
        node.change(0, processes=tuple(StandInProcess(pid) for pid in pids))
        snapshot = sampler.once()
        assert states(snapshot) == [State.OK] * 8
        assert len(snapshot.devices[0].processes) == 40
        told = andon("status", "--json").json()["devices"]
        assert {device["state"] for device in told} == {"ok"}
        late = [p for p in snapshot.devices[0].processes if p.command is None]
        assert not late or NAMES_MISSING in snapshot.devices[0].missing


@pytest.fixture
def silent_process(kernel: Path) -> Path:
    """A root where one process's command line hangs whoever reads it, as a stuck kernel does."""
    (kernel / "proc").unlink()
    for pid in (7, 8):
        folder = kernel / "proc" / str(pid)
        folder.mkdir(parents=True)
        fields = ["S", "1"] + ["0"] * 17 + ["500"] + ["0"] * 30
        (folder / "stat").write_text(f"{pid} (train) {' '.join(fields)}\n")
        (folder / "status").write_text("Name:\ttrain\nUid:\t0\t0\t0\t0\n")
        (folder / "cmdline").write_bytes(b"train\0--fast\0")
    (kernel / "proc/2").mkdir()
    (kernel / "proc/2/comm").write_text("kthreadd\n")
    (kernel / "proc/7/cmdline").unlink()
    os.mkfifo(kernel / "proc/7/cmdline")
    return kernel


def test_a_process_whose_files_hang_costs_its_name_and_nothing_else(
    node: StandIn, silent_process: Path
) -> None:
    node.change(0, processes=(StandInProcess(7),))
    node.change(1, processes=(StandInProcess(8),))
    with open_sampler(load_settings({}).settings) as sampler:
        first = sampler.once()
        assert states(first) == [State.OK] * 8
        later = until(sampler, lambda seen: seen.devices[1].processes[0].name is not None)
    assert states(later) == [State.OK] * 8
    (hung,), (named,) = later.devices[0].processes, later.devices[1].processes
    assert hung.pid == 7
    assert hung.name is None
    assert "looked up" in later.devices[0].missing[NAMES_MISSING]
    assert (named.name, named.command) == ("train", "train --fast")
