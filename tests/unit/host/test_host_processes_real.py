"""How this machine's real processes are described: children of the test, zombies, reused pids."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from andon.host.processes import facts as processes
from andon.host.processes.facts import ProcessTable
from andon.host.processes.procfs import (
    ProcessParent,
)
from andon.host.rules.attribution import ProcessMembership
from andon.model.device import Process
from tests.conftest import need

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def child(*arguments: str) -> Iterator[int]:
    """A `cat` that has begun and runs until its standard input ends."""
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.read(1) == b"x"
        yield process.pid


@pytest.mark.process
def test_a_real_process_is_described() -> None:
    with child("cat", "--", "-", "--token=abc") as pid:
        (found,) = ProcessTable().attribute([Process(pid)])
    assert found.name == "cat"
    assert found.command == "cat -- - --token=***"
    assert found.started is not None
    assert abs(found.started - time.time()) < 30
    assert found.user


def test_this_process_has_the_same_start_in_every_table() -> None:
    starts = {ProcessTable().attribute([Process(os.getpid())])[0].started for _ in range(3)}
    assert len(starts) == 1
    assert None not in starts


def test_this_process_uses_cpu_time_and_memory() -> None:
    use = ProcessTable().usage([os.getpid()])[os.getpid()]
    assert use.cpu_seconds > 0
    assert use.memory_bytes > 1_000_000


@pytest.mark.process
@linux
def test_a_zombie_keeps_its_name_and_has_no_command() -> None:
    with child("cat") as pid:
        os.kill(pid, 9)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it has ended and is not collected
        (found,) = ProcessTable().attribute([Process(pid)])
    assert (found.name, found.command) == ("cat", "[cat]")
    assert found.user


@pytest.mark.process
def test_a_process_that_has_ended_keeps_its_none() -> None:
    with child("cat") as pid:
        pass
    assert ProcessTable().attribute([Process(pid)]) == (Process(pid),)


@pytest.mark.process
@linux
def test_a_process_that_ends_between_two_looks_is_gone_at_the_second() -> None:
    table = ProcessTable()
    with child("cat") as pid:
        assert table.attribute([Process(pid)])[0].name == "cat"
    assert table.attribute([Process(pid)]) == (Process(pid),)
    assert table.note is None


@pytest.mark.process
@linux
def test_a_process_that_becomes_a_zombie_between_two_looks_keeps_its_name() -> None:
    table = ProcessTable()
    with child("cat") as pid:
        (alive,) = table.attribute([Process(pid)])
        os.kill(pid, 9)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        (dead,) = table.attribute([Process(pid)])
    assert (dead.name, dead.started, dead.user) == (alive.name, alive.started, alive.user)


SAME_PID = """
import subprocess
from pathlib import Path
from andon.host.processes.facts import ProcessTable
from andon.host.processes.procfs import ProcFolder
from andon.model.device import Process

ProcFolder.sees_host_pids = lambda self: True  # here, the numbers of this namespace are meant
last, table, pids = Path("/proc/sys/kernel/ns_last_pid"), ProcessTable(), set()
for command in (["cat"], ["cat", "--", "-"]):
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"x")
        process.stdin.flush()
        process.stdout.read(1)  # it has begun
        print(table.attribute([Process(process.pid)])[0].command)
    last.write_text(str(process.pid - 1))  # of this namespace alone
    pids.add(process.pid)
print(len(pids))
"""


@pytest.mark.process
@linux
def test_a_number_that_is_used_again_belongs_to_its_new_owner() -> None:
    """For real: the kernel is made to give the same pid twice."""
    need("unshare")
    alone = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("a pid namespace of one's own needs root")
    done = subprocess.run([*alone, sys.executable, "-c", SAME_PID], capture_output=True, text=True)
    assert done.stdout.split("\n") == ["cat", "cat -- -", "1", ""], done.stderr


@pytest.mark.process
@linux
def test_the_ancestors_of_a_real_process_lead_to_this_one() -> None:
    with child("cat") as pid:
        found = ProcessTable().lineage([pid])
    assert found[pid] == ProcessParent(pid, os.getpid(), "cat")
    assert os.getpid() in found


@pytest.mark.process
def test_systems_without_proc_are_asked_through_psutil() -> None:
    source = processes._Psutil()
    with child("cat", "--", "-") as pid:
        stamp = source.stamp(pid)
        assert stamp is not None
        facts = source.facts(pid, stamp)
        assert (facts.name, facts.command) == ("cat", "cat -- -")
        use = source.use(pid)
        assert use is not None
        assert use.memory_bytes > 0
        assert source.link(pid) == ProcessParent(pid, os.getpid(), "cat")
        assert source.belonging(pid) == ProcessMembership()
    assert source.stamp(pid) is None
    assert source.link(pid) is None
    assert source.use(pid) is None
    assert source.facts(pid, stamp).name is None
