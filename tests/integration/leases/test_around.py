"""`andon lease --around PID`: a lease for a process that already runs, and ends with it."""

import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from andon.leases.book.lease_book import Book
from andon.units import GIB
from tests.integration.conftest import Outcome, andon, is_alive
from tests.integration.leasing import FOREVER, entries, held, line, running
from tests.integration.machine import on_a_machine, told
from tests.standin import StandIn, StandInProcess
from tests.support.waiting import wait_for
from tests.support.web_parts import end_holders

PYTHON = sys.executable
NOBODY = 65_534
PARENT = ("sh", "-c", "sleep 1000 & echo $!; wait")


@pytest.fixture(autouse=True)
def _surroundings(node: StandIn, own_places: Path) -> Iterator[None]:
    yield
    end_holders(Book(make=False))


@contextmanager
def working(
    node: StandIn, device: int = 3, *command: str, busy: int = 97
) -> Iterator["subprocess.Popen[str]"]:
    """A process that uses a device."""
    made = subprocess.Popen(
        command or ("sleep", "1000"), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    on_it = (StandInProcess(made.pid, GIB, sm=busy),)
    node.change(device, used=GIB, gpu_utilisation=busy, processes=on_it)
    try:
        yield made
    finally:
        os.killpg(made.pid, signal.SIGKILL)
        made.wait()
        node.change(device, used=0, gpu_utilisation=0, processes=())
        assert made.stdout is not None
        made.stdout.close()


def around(pid: int, *words: str) -> Outcome:
    return andon("lease", "--around", str(pid), *words)


def taken(pid: int, *words: str) -> str:
    """The id of the lease that was printed."""
    done = around(pid, *words)
    assert done.code == 0, done.err
    [name] = held()
    assert f"lease {name}: " in done.out
    return name


def state_of(name: str) -> str | None:
    found = andon("leases", "--json").json()["leases"]
    return next((one["state"] for one in found if one["id"] == name), None)


def marks() -> dict[int, str | None]:
    devices = andon("status", "--json").json()["devices"]
    return {one["pid"]: one["lease"] for found in devices for one in found["processes"]}


def test_the_lease_covers_the_family_and_ends_with_the_process(node: StandIn) -> None:
    with working(node, 3, *PARENT) as process:
        child = int(line(process))
        node.change(5, used=GIB, processes=(StandInProcess(child, GIB),))
        done = around(process.pid)
        assert done.code == 0, done.err
        [name] = held()
        assert done.out == (
            f"lease {name}: GPU 3, 5 while process {process.pid} (sh -c sleep 1000 & echo $!; "
            f"wait) runs; to end it: andon release {name}\n"
        )
        assert marks() == {process.pid: name, child: name}
        refused = andon("run", "--no-wait", "-d", "5", "--", "true")
        assert f"GPU 5: held by lease {name} (" in refused.err
        again = around(process.pid)
        assert again.code == 6
        assert f"process {process.pid} is already under lease {name}" in again.err
        process.kill()
        process.wait()
        wait_for(lambda: not held())
        assert is_alive(child), "nothing is signalled"


def test_a_release_ends_the_lease_and_not_the_process(node: StandIn) -> None:
    with working(node) as process:
        name = taken(process.pid, "--for", "1h")
        assert andon("release", name).out == f"released lease {name}\n"
        assert held() == []
        assert process.poll() is None


def test_its_end_is_no_end_of_the_process(node: StandIn) -> None:
    with working(node) as process:
        done = around(process.pid, "--for", "1s")
        assert "runs, until " in done.out
        assert " at most; to end it: " in done.out
        wait_for(lambda: not held())
        assert process.poll() is None


@pytest.mark.parametrize("session", [True, False])
def test_a_killed_holder_leaves_an_orphan_until_the_process_ends(
    node: StandIn, session: bool
) -> None:
    """Whether or not the process leads a group, and though no device shows it."""
    program = ["sleep", "1000"]
    with subprocess.Popen(program, start_new_session=session) as process:
        try:
            name = taken(process.pid, "-d", "0")
            [holder] = [e.lease.owner.pid for e in entries()]
            os.kill(holder, signal.SIGKILL)
            wait_for(lambda: state_of(name) == "orphaned")
            refused = andon("run", "--no-wait", "-d", "0", "--", "true")
            assert f"GPU 0: orphaned by lease {name}" in refused.err
            again = around(process.pid, "-d", "0")
            assert again.code == 0, again.err
            assert state_of(name) is None, "the new one takes its place"
            [name] = held()
            [holder] = [e.lease.owner.pid for e in entries()]
            os.kill(holder, signal.SIGKILL)
            wait_for(lambda: state_of(name) == "orphaned")
        finally:
            process.kill()
    wait_for(lambda: state_of(name) is None)
    assert andon("run", "--no-wait", "-d", "0", "--", "true").code == 0


def test_what_cannot_be_leased_is_one_sentence(node: StandIn) -> None:
    with subprocess.Popen(["sleep", "1000"]) as ended:
        ended.kill()
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            pid = process.pid
            for words, code, sentence in (
                ((f"{pid}",), 6, f"process {pid} uses no GPU now\nhint: name them: -d 0"),
                ((f"{pid}", "-d", "9"), 5, "no device"),
                ((f"{pid}", "-d", "0", "--gpus", "2"), 2, "--around and --gpus cannot be combined"),
                ((f"{pid}", "--", "true"), 2, "--around and a command cannot be combined"),
                ((f"{ended.pid}",), 5, f"there is no process with pid {ended.pid}"),
                (("0",), 2, "0 is not the pid of a process"),
                (("-7",), 2, "-7 is not the pid of a process"),
                (("1",), 2, "process 1 runs as long as"),
            ):
                done = andon("lease", "--around", *words)
                assert (done.code, sentence in done.err) == (code, True), (words, done)
        finally:
            process.kill()
    assert entries() == []


def test_devices_of_others_are_refused_as_everywhere(node: StandIn) -> None:
    with working(node, 3) as process, running("run", "-d", "0", "--", PYTHON, "-c", FOREVER) as run:
        assert line(run) == "started"
        [name] = held()
        done = around(process.pid, "-d", "0,3")
        assert done.code == 6
        assert f"GPU 0: held by lease {name} (" in done.err
        assert andon("cordon", "3").code == 0
        assert "GPU 3: cordoned by" in around(process.pid).err
        assert andon("uncordon", "3").code == 0
        with subprocess.Popen(["sleep", "1000"]) as other:
            both = (StandInProcess(process.pid, GIB), StandInProcess(other.pid, GIB))
            node.change(3, used=2 * GIB, processes=both)
            done = around(process.pid)
            assert done.code == 6
            assert f"GPU 3: pid {other.pid} (" in done.err
            assert around(process.pid, "--even-if-used").code == 0
            other.kill()


USERS = r"""
mkdir -p /run/andon
as() { uid=$1; shift; user $uid "$PYTHON" -P -m andon.cli "$@" 2>&1 || echo "exit $?"; }
working() {  # a process of this user; its pid
    setpriv --reuid $1 --regid $1 --clear-groups sleep 600 > /dev/null &
    until grep -q "^Uid:.$1" /proc/$!/status; do sleep 0.05; done
    pid=$!
}
said() { echo "@@$1"; cat; echo; echo "@@"; }
working 65534
andon lease --simulate 4 --around $pid -d 0 | sed "s/$pid/PID/" | said roots
andon leases --simulate 4 --json | said listed
name=$(ls /run/andon/leases | sed s/-.*//)
as 65534 release $name | sed "s/$name/ID/" | said release
sleep 600 > /dev/null & other=$!
as 65534 lease --simulate 4 --around $other -d 0 | sed "s/$other/PID/" | said denied
as 65534 lease --simulate 4 --around $pid -d 0 | sed "s/$pid/PID/" | said own
kill $pid
until [ -z "$(ls /run/andon/leases)" ]; do sleep 0.05; done
working 12345
andon lease --simulate 4 --around $pid -d 0 2>&1 | said unknown || true
"""


def test_root_leases_for_a_process_of_another_user() -> None:
    found = told(on_a_machine(USERS))
    user = pwd.getpwuid(NOBODY).pw_name
    assert re.fullmatch(
        r"lease \w+: GPU 0 while process PID \(sleep 600\) runs; .*", found["roots"]
    )
    [one] = found["listed"]["leases"]
    assert (one["user"], one["uid"], one["state"]) == (user, NOBODY, "held")
    assert found["release"] == "released lease ID"
    assert "process PID belongs to root" in found["denied"]
    assert found["denied"].endswith("exit 4")
    assert re.fullmatch(r"lease \w+: GPU 0 while process PID .*", found["own"])
    assert "user 12345 has no account here" in found["unknown"]


def test_a_process_that_uses_none_may_have_named_devices(node: StandIn) -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        taken(process.pid, "-d", "0,1")
        assert "6 of 8 free" in andon("free").out
        process.kill()
    wait_for(lambda: not held())
    assert "8 of 8 free" in andon("free").out
