"""How processes are related, on this system's own processes."""

import os
import subprocess
import sys
from pathlib import Path

from andon.host.kin import group_lives, myself, parse_kin, read_kin, started_ticks, ticks_now


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
    assert parse_kin(f"7 (a) S b) S 1 22 33 {fields}".encode()) == (22, 33, 15)
    assert parse_kin(b"") is None


def test_a_group_lives_while_a_member_does_and_a_zombie_is_none() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0
    )
    assert group_lives(process.pid)
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped
    assert Path(f"/proc/{process.pid}").exists()
    assert not group_lives(process.pid)
    assert started_ticks(process.pid) is None
    process.wait()
    assert not group_lives(process.pid)
