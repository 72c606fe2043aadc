"""A real server beside a real lease book: holders on the board, and the four alerts of leases."""

import fcntl
import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conftest import need
from tests.integration.conftest import andon, is_alive
from tests.integration.leasing import FOREVER, held, kill, line, running, work_pid
from tests.integration.parts import wait_until
from tests.integration.serving import Served, serving
from tests.standin import StandIn, StandInDevice, StandInProcess
from tests.support.homes import own_folders
from tests.support.waiting import wait_for

PYTHON = sys.executable
ME = pwd.getpwuid(os.getuid()).pw_name
NOBODY = 65534
SIZE = 22 << 30
HASTE = """
[alerts]
idle_seconds = 1
idle_lease_seconds = 2
squatter_seconds = 1
orphan_seconds = 1
leftover_memory_seconds = 1
[sampling]
interval = 0.2
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def environment(place: Path, library: Path) -> dict[str, str]:
    (place / "andon.toml").write_text(HASTE)
    (place / "node").mkdir()
    return {
        **StandIn(place / "node").environment(library),
        **own_folders(place),
        "HOME": "/nonexistent",
        "ANDON_CONFIG": str(place / "andon.toml"),
    }


@pytest.fixture(scope="module")
def home(place: Path, environment: dict[str, str]) -> Iterator[Served]:
    """One server for all, over two devices of the stand-in; every duration is a second or two."""
    StandIn(place / "node").write(StandIn.devices(2))
    given: dict[str, Any] = environment
    with serving(place / "state", "--no-history", simulate=None, **given) as made:
        yield made


@pytest.fixture
def node(place: Path) -> StandIn:
    return StandIn(place / "node")


@pytest.fixture
def served(
    home: Served, node: StandIn, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    """The server with idle devices and an empty book, for commands beside it."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    node.write(StandIn.devices(2))
    yield home
    node.write(StandIn.devices(2))
    wait_until(lambda: not holders(home), "the end of what the test left")


def holders(served: Served) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = served.ask("/api/board").json()["holders"]
    return found


def firing(served: Served, rule: str, lease: str = "") -> dict[str, Any] | None:
    """The alert by this rule, or the one about a lease: that of an earlier test ends later."""
    said = served.ask(f"/api/alerts?state=firing&rule={rule}", **served.bearer).json()["alerts"]
    return next((one for one in said if not lease or one["subject"] == f"lease:{lease}"), None)


def told(served: Served, rule: str, lease: str = "") -> dict[str, Any]:
    wait_until(lambda: firing(served, rule, lease), f"{rule} fires")
    found = firing(served, rule, lease)
    assert found is not None
    return found


def show(node: StandIn, *first: StandInProcess, used: int | None = None) -> None:
    """The processes of the first device, and the memory in use there."""
    one, two = StandIn.devices(2)
    sizes = [process.memory or 0 for process in first]
    node.write([replace(one, processes=first, used=sum(sizes) if used is None else used), two])


@contextmanager
def process() -> Iterator[int]:
    """A process of somebody else."""
    if os.geteuid() != 0:
        pytest.skip("other users need root")
    made = subprocess.Popen(["sleep", "1000"], user=NOBODY)
    try:
        yield made.pid
    finally:
        made.kill()
        made.wait()


def device() -> StandInDevice:
    return StandIn.devices(2)[0]


def test_the_board_knows_the_holder_before_and_while_its_work_runs(
    served: Served, node: StandIn
) -> None:
    assert holders(served) == {}
    with running("run", "--devices", "0", "--for", "1h", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        [name] = held()
        wait_until(lambda: holders(served), "the holder")
        [one] = holders(served)[device().uuid]
        assert (one["lease"], one["user"], one["state"]) == (name, ME, "held")
        assert one["memory_bytes"] is None
        assert one["until"] is not None
        show(node, StandInProcess(work_pid(), memory=SIZE))
        wait_until(lambda: leases_of_processes(served) == [name], "the mark on its process")
        here = andon("status", "--json").json()["devices"][0]["processes"]
        assert [process["lease"] for process in here] == [name]
    wait_until(lambda: not holders(served), "its end")
    health = served.ask("/api/health").json()["leases"]
    assert (health["state"], health["count"]) == ("ok", 0)


def leases_of_processes(served: Served) -> list[str | None]:
    devices = served.ask("/api/snapshot").json()["devices"]
    return [process["lease"] for found in devices for process in found["processes"]]


def test_an_idle_lease_is_told_to_its_owner_and_over_when_it_is_given_back(
    served: Served,
) -> None:
    with running("lease", "--devices", "0", "--for", "1h", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        [name] = held()
        found = told(served, "idle_lease", name)
        assert found["message"].startswith(f"Lease {name} ({ME}) has left GPU 0 idle")
        assert found["advice"].endswith(f"andon release {name}")
        assert [party["user"] for party in found["affected"]] == [ME]
        assert told(served, "idle")["inhibited_by"] == found["id"]
        listed = andon("alerts", "--url", served.url)
        assert f"idle_lease@{name}" in listed.out
        assert andon("release", name).code == 0
        wait_until(lambda: not firing(served, "idle_lease", name), "its end")
        assert firing(served, "idle") is None


def test_a_process_outside_the_lease_is_told_with_both_names(served: Served, node: StandIn) -> None:
    with (
        process() as stranger,
        running("run", "--devices", "0", "--", PYTHON, "-c", FOREVER) as work,
    ):
        assert line(work) == "started"
        [name] = held()
        them = pwd.getpwuid(NOBODY).pw_name
        mine, other = StandInProcess(work_pid(), SIZE), StandInProcess(stranger, SIZE, sm=90)
        show(node, mine, other)
        found = told(served, "squatter")
        assert found["message"].startswith(
            f"GPU 0: used outside lease {name} ({ME}) by pid {stranger} ({them}, sleep)"
        )
        assert (found["value"], found["evidence"]["lease"]) == (SIZE, name)
        assert f"Ask {them}" in found["advice"]
        assert found["affected"][0]["pid"] == stranger
        wait_until(lambda: set(leases_of_processes(served)) == {name, None}, "both marks")


def test_a_lease_around_a_process_covers_what_it_started_before(
    served: Served, node: StandIn
) -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    ) as process:
        child = int(line(process))
        show(node, StandInProcess(process.pid, SIZE), StandInProcess(child, SIZE))
        try:
            assert andon("lease", "--around", str(process.pid)).code == 0
            [name] = held()
            wait_until(lambda: leases_of_processes(served) == [name, name], "both marks")
            told(served, "idle_lease", name)  # by now another process there would be told, too
            assert firing(served, "squatter") is None
        finally:
            os.kill(child, signal.SIGKILL)
            process.kill()
    wait_until(lambda: not held(), "its end")


def test_an_orphan_made_by_a_kill_is_told_with_the_command_that_ends_it(served: Served) -> None:
    worker = f"import subprocess; p = subprocess.Popen([{PYTHON!r}, '-c', {FOREVER!r}]); p.wait()"
    with running("run", "--devices", "0", "--", PYTHON, "-c", worker) as process:
        assert line(process) == "started"
        [name] = held()
        pid = work_pid()
        wait_until(lambda: holders(served), "the holder")
        kill(process.pid)
        process.wait()
        kill(pid)
        wait_for(lambda: not is_alive(pid))
        found = told(served, "orphan", name)
        assert f"Lease {name} ({ME}) is orphaned: its holder exited" in found["message"]
        assert "GPU 0 withheld" in found["message"]
        left = found["affected"][0]["pid"]
        assert left != pid
        assert found["advice"].endswith(f": kill {left}")
        [one] = holders(served)[device().uuid]
        assert (one["lease"], one["state"]) == (name, "orphaned")
        os.kill(left, signal.SIGTERM)  # as the advice says
        wait_until(lambda: not holders(served), "the end of the work")


def test_memory_that_stays_when_its_lease_ended_is_a_ghost(served: Served, node: StandIn) -> None:
    with running("run", "--devices", "0", "--", PYTHON, "-c", FOREVER) as work:
        assert line(work) == "started"
        [name] = held()
        show(node, StandInProcess(work_pid(), SIZE))
        wait_until(lambda: leases_of_processes(served) == [name], "the mark on its process")
        show(node, used=SIZE)
        assert andon("release", name).code == 0
    found = told(served, "leftover_memory")
    assert found["message"] == f"GPU 0: 22.0 GiB still in use after lease {name} ({ME}) ended"
    left = found["value"]
    assert found["evidence"] == {"left_bytes": left, "lease": name, "user": ME}
    free = andon("free", "--gpus", "2")
    assert free.code == 1
    assert re.search(r"0 +H200 .* 22.0 GiB used by no visible process", free.out)


def test_a_hostile_book_leaves_the_server_well_and_says_who(served: Served, place: Path) -> None:
    folder = place / "book" / "leases"
    assert andon("run", "--", "true").code == 0  # makes the book
    (folder / "x.lease").write_bytes(b"\x00" * 100_000)
    os.mkfifo(folder / "y.lease")
    with (folder / "x.lease").open("rb") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        wait_until(lambda: len(holders(served)) == 2, "everything withheld")
        [one] = holders(served)[device().uuid]
        assert (one["lease"], one["user"], one["state"]) == (None, ME, "unreadable")
    wait_until(lambda: not holders(served), "its end")
    folder.rename(folder.with_name("away"))
    wait_until(lambda: served.ask("/api/board").json()["holders_note"], "the reason")
    assert served.ask("/api/health").json()["leases"]["state"] == "degraded"
    folder.with_name("away").rename(folder)
    wait_until(lambda: not served.ask("/api/board").json()["holders_note"], "a book again")


UNSERVED = """
import ctypes, os, sys
fuse = os.open("/dev/fuse", os.O_RDWR)
os.set_inheritable(fuse, True)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
assert libc.mount(b"nobody", sys.argv[1].encode(), b"fuse", 0, options) == 0, ctypes.get_errno()
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Mounts a file system that nobody serves, where whoever asks hangs; then begins the rest."""


def test_a_book_that_hangs_delays_no_look_and_is_told(own_places: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    need("unshare")
    if not Path("/dev/fuse").exists():
        pytest.skip("there is no /dev/fuse")
    book = own_places / "book"
    (book / "leases").mkdir(parents=True)
    wrapped = ["unshare", "--mount", PYTHON, "-c", UNSERVED, str(book / "leases")]
    with serving(own_places / "state", "--no-history", wrapped=wrapped) as served:

        def health() -> dict[str, Any]:
            found: dict[str, Any] = served.ask("/api/health").json()
            return found

        wait_until(lambda: health()["leases"]["reason"], "the silence of the book")
        said = health()
        assert "has not responded for" in said["leases"]["reason"]
        assert said["sampler"]["state"] == "ok"
        assert said["sampler"]["snapshots"] >= 8
        board = served.ask("/api/board").json()
        notes = (board["holders_note"], said["leases"]["reason"])  # seconds pass between the two
        assert board["holders"] == {}
        assert len({note.rpartition(" for ")[0] for note in notes}) == 1
        served.process.terminate()
        assert served.process.wait(60) == 0, "and nothing holds up its end"


def test_simulated_devices_are_leased_and_shown_and_never_mix(
    own_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")
    (own_places / "andon.toml").write_text(HASTE)
    monkeypatch.setenv("ANDON_CONFIG", str(own_places / "andon.toml"))
    with (
        serving(own_places / "state", "--no-history", ANDON_SIMULATE_FAULTS="xid:1@6=79") as served,
        running("lease", "--simulate", "1", "--for", "1h", "--", PYTHON, "-c", FOREVER) as process,
    ):
        assert line(process) == "started"
        [name] = held()
        wait_until(lambda: holders(served), "the holder")
        [[one]] = holders(served).values()
        assert (one["lease"], one["state"]) == (name, "held")
        assert told(served, "idle_lease", name)
        # What the server heard of a device withholds it from those who look but once. It comes
        # after some seconds: a reader that is opened later than an event does not get it.
        told(served, "xid")
        free = andon("free", "--simulate", "2")
        assert free.code == 1
        assert f"(lease {name})" in free.out
        assert "reports Xid 79: the GPU has fallen off the bus" in free.out
        refused = andon("run", "--simulate", "2", "--no-wait", "--", "true")
        assert refused.code == 125
        assert "GPU 1: reports Xid 79" in refused.err
    assert andon("run", "--simulate", "2", "--devices", "1", "--no-wait", "--", "true").code == 0
