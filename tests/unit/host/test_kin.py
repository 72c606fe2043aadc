"""How processes are related, on this system's own processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from andon.host.processes.kin import group_members, myself, read_kin, started_ticks, ticks_now
from andon.host.rules.proc_stat import parse_stat
from tests.support.noticed import noticed


def test_a_process_knows_itself() -> None:
    me = myself()
    assert (me.uid, me.pid, me.session) == (os.getuid(), os.getpid(), os.getsid(0))
    assert 0 < me.started_ticks <= ticks_now()
    found = read_kin([os.getpid(), 2**22 + 5])
    assert list(found) == [os.getpid()]
    assert found[os.getpid()].group == os.getpgid(0)
    assert found[os.getpid()].started_ticks == me.started_ticks


def test_a_name_with_parentheses_is_no_field() -> None:
    fields = " ".join(str(number) for number in range(40))
    stat = parse_stat(f"7 (a) S b) S 1 22 33 {fields}".encode())
    assert stat is not None
    assert (stat.group, stat.session, stat.start_ticks) == (22, 33, 15)
    assert parse_stat(b"") is None


@pytest.mark.process
def test_a_group_has_its_members_and_a_zombie_is_told_from_the_living() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0
    )
    [member] = group_members({process.pid})[process.pid]
    assert (member.pid, member.uid, member.ended) == (process.pid, os.getuid(), False)
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped
    assert Path(f"/proc/{process.pid}").exists()
    [member] = group_members({process.pid})[process.pid]
    assert member.ended
    assert started_ticks(process.pid) is None
    process.wait()
    assert group_members({process.pid}) == {}


def test_one_look_at_all_processes_serves_every_group() -> None:
    with noticed("os.listdir") as looks:
        assert os.getpgid(0) in group_members({os.getpgid(0), 2**22 - 1, 2**22 - 2})
        assert group_members(set()) == {}
    assert looks == [("/proc",)]
