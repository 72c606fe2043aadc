"""Reservations whatever happens: kills, full and read-only disks, clocks, absence, accounts."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.errors import AndonError, Conflict
from andon.leases import reserving
from andon.leases.availability import Availability
from andon.leases.book import places
from andon.leases.book.hold import LeaseHold
from andon.leases.book.holder import HolderProcess
from andon.leases.book.lease_book import Book
from andon.leases.releaser import move_end
from andon.leases.rules.reservations import is_over, week_seconds
from andon.model.device import Device, DeviceStatus, Sample, Snapshot, State
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import Reservation, Share
from tests.conftest import need
from tests.integration.conftest import andon
from tests.integration.leasing import FOREVER, entries, held, line, running
from tests.integration.parts import need_root
from tests.support.homes import no_other_book
from tests.support.killed_at import killed_at
from tests.support.sharing_parts import lease
from tests.support.waiting import wait_for
from tests.support.wall_clock import WallClock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks and mounts of Linux")
HOUR, MOST_STEPS = 3600.0, 60
UNUSED_SECONDS = 1800.0
NOBODY_KNOWS = 54_321
PYTHON = sys.executable


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Book:
    no_other_book(monkeypatch)
    monkeypatch.setenv("ANDON_LEASE_DIR", str(tmp_path / "book"))
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")
    return Book()


def snapshot() -> Snapshot:
    devices = (Device(f"SIM-{i}", i, "sim", "Sim", memory_total_bytes=1) for i in range(4))
    status = (DeviceStatus(one, State.OK, 0.0, sample=Sample(1.0)) for one in devices)
    return Snapshot("n", time.time(), simulated=True, devices=tuple(status))


def reserve(
    book: Book, count: int = 2, hours_ahead: float = 1.0, hours: float = 2.0
) -> Reservation:
    begins = time.time() + hours_ahead * HOUR
    availability = Availability(snapshot, simulated=True)
    request = DeviceRequest(least=count, most=count)
    times = [(begins, begins + hours * HOUR)]
    (made,) = reserving.reserve(availability, book, request, times)
    return made


def write(book: Book, begins: float, hours: float = 2.0) -> Reservation:
    """One of the first simulated device, whose start may have passed."""
    assert andon("reserve", "--simulate", "1", "--from", "1h", "--for", "1h").code == 0
    [made] = book.reservations()
    one = replace(made, begins=begins, ends=begins + hours * HOUR)
    with book.locked():
        book.reserve(one)
    return one


def seen(book: Book) -> set[tuple[str, float]]:
    """What everyone reads: never two that overlap on a device, and nothing that is torn."""
    found = [one for one in book.reservations() if not is_over(one, time.time())]
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            apart = one.ends <= other.begins or other.ends <= one.begins
            assert apart or not one.uuids & other.uuids
    return {(one.id, round(one.begins)) for one in found}


# Killed.


def changed(book: Book) -> None:
    reserving.change(book, "r1", time.time() + 5 * HOUR, None)


def cancelled(book: Book) -> None:
    reserving.cancel(book, "r1")


@pytest.mark.parametrize("act", [reserve, changed, cancelled])
def test_killed_at_any_step_the_old_or_the_new_is_believed_and_the_next_works(
    book: Book, tmp_path: Path, act: Callable[[Book], object]
) -> None:
    folder, saved = tmp_path / "book" / "reservations", tmp_path / "saved"
    if act is not reserve:
        reserve(book)
    shutil.copytree(folder, saved)
    before, steps = seen(book), 0
    while steps < MOST_STEPS and killed_at(steps, lambda: act(Book())):
        after = seen(Book())
        assert after == before or len(after ^ before) <= 2, (steps, before, after)
        assert len(after) == (act is reserve if after != before and act is not changed else
                              len(before)), (steps, after)  # fmt: skip
        reserve(Book(), count=1)  # nothing that is locked or left is in its way
        assert len(seen(Book())) == len(after) + 1
        left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        assert left == [], f"step {steps}: the next one removes what was not finished"
        shutil.rmtree(folder)
        shutil.copytree(saved, folder, copy_function=shutil.copy2)
        folder.chmod(0o1777)
        steps += 1
    assert 2 <= steps < MOST_STEPS, "nothing was killed"
    assert len(seen(Book()) ^ before) == (2 if act is changed else 1), "and then it is done"


def test_killed_while_its_folder_is_made_the_next_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As beside a book that a reboot empties: the folder's parent is made, too."""
    no_other_book(monkeypatch)
    common, lasting = tmp_path / "common", tmp_path / "lasting"
    monkeypatch.setattr(places, "LASTING", {common: lasting})
    before = os.umask(0o077)
    try:
        steps = 0
        while steps < MOST_STEPS and killed_at(steps, lambda: places.prepare_reservations(common)):
            places.prepare_reservations(common)
            assert lasting.stat().st_mode & 0o777 == 0o755, "whatever the umask: all users read it"
            assert (lasting / "reservations").stat().st_mode & 0o7777 == 0o1777
            shutil.rmtree(lasting)
            steps += 1
        assert 2 <= steps < MOST_STEPS
    finally:
        os.umask(before)


@pytest.fixture
def common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Book:
    """The book in /tmp and its folder on the disk, in a folder of the test's own."""
    need_root()
    no_other_book(monkeypatch)
    common, lasting = tmp_path / "common", tmp_path / "lasting"
    monkeypatch.setattr(places, "COMMON_BOOK", common)
    monkeypatch.setattr(places, "LASTING", {common: lasting})
    monkeypatch.delenv("ANDON_LEASE_DIR", raising=False)
    return Book()


@pytest.mark.parametrize("mode", [0o700, 0o711, 0o755])
def test_a_folder_that_a_stranger_made_first_and_closed_has_no_effect(
    common: Book, tmp_path: Path, mode: int
) -> None:
    lasting = tmp_path / "lasting"
    shutil.rmtree(lasting)
    (lasting / "reservations").mkdir(parents=True)
    lasting.chmod(mode)
    for one in (lasting, lasting / "reservations"):
        os.chown(one, NOBODY_KNOWS, NOBODY_KNOWS)
    forged = lasting / "reservations" / "r9-0.reservation"
    forged.write_text("{")
    assert places.is_closed(lasting / "reservations"), "nobody else can write there"
    made = reserve(common)
    assert list((common.path / "reservations").glob("*.reservation")), "it is in the book"
    assert [one.id for one in Book().reservations()] == [made.id]
    (lasting / "reservations").chmod(0o1777)
    lasting.chmod(0o755)
    assert not places.is_closed(lasting / "reservations")
    assert [one.id for one in Book().reservations()] == [made.id], "also once it is opened"
    reserving.change(Book(), made.id, time.time() + 5 * HOUR, None)
    assert len(Book().reservations()) == 1, "it stays where it is"
    reserving.cancel(Book(), made.id)
    assert Book().reservations() == ()


def test_a_draft_that_was_left_costs_nobody_anything(book: Book) -> None:
    (book.path / "reservations" / f".{'0' * 24}").write_text("{")
    assert book.reservations() == ()
    code = (
        "import sys; from andon.leases.book.lease_book import Book; Book().reservations(); "
        "print([n for n in sys.modules if n.endswith('.reservations')])"
    )
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# Full and read-only.


def on_a_small_disk(folder: Path, *steps: str) -> dict[str, str]:
    """Runs steps beside a book on a small tmpfs; what each printed, by its number."""
    need_root()
    need("unshare", "mount")
    prelude = (
        'mount -t tmpfs -o size=256k tmpfs "$1"; export ANDON_LEASE_DIR="$1/book"; cd /; '
        'andon() { "$PYTHON" -P -m andon.cli "$@" 2>&1; echo "exit $?"; }; '
    )
    said = "".join(f"echo '@@{n}'; {step}; " for n, step in enumerate(steps))
    env = {**os.environ, "PYTHON": PYTHON, "ANDON_SIMULATE_SCENARIO": "idle", "COLUMNS": "120"}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", prelude + said, "sh", str(folder)],
        capture_output=True, text=True, timeout=300, check=False, env=env,
    )  # fmt: skip
    assert done.stderr == ""
    parts = re.split(r"@@(\d+)\n", done.stdout)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


RESERVE = "andon reserve --simulate 4 --gpus 1 --for 1h --from"
FILL = 'dd if=/dev/zero of="$1/full" bs=1k >/dev/null 2>&1; true'


def test_a_full_disk_refuses_in_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    found = on_a_small_disk(
        tmp_path, f"{RESERVE} 2h", FILL, f"{RESERVE} 3h", "andon reserve change r1 --from 5h",
        "andon reservations", 'ls -A "$1/book/reservations" | wc -l', 'rm "$1/full"',
        "andon reserve change r1 --from 5h", "andon reserve cancel r1",
    )  # fmt: skip
    assert "reserved r1: GPU 0" in found["0"]
    for step in ("2", "3"):
        assert "reservations cannot be written: No space left on device" in found[step]
        assert "Traceback" not in found[step]
        assert "exit 0" not in found[step]
        assert len(found[step].splitlines()) <= 3, found[step]
    assert "r1" in found["4"], "it is as it was"
    assert found["5"].strip() == "1", "nothing is left of what could not be written"
    assert "changed r1" in found["7"]
    assert "cancelled r1" in found["8"]


def test_a_read_only_book_refuses_in_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    again = 'mount -o remount,rw "$1"'
    found = on_a_small_disk(
        tmp_path, f"{RESERVE} 2h", 'mount -o remount,ro "$1"', f"{RESERVE} 3h",
        "andon reserve change r1 --from 5h", "andon reserve cancel r1", "andon reservations",
        again, "andon reserve cancel r1",
    )  # fmt: skip
    for step in ("2", "3", "4"):
        assert "Read-only file system" in found[step], (step, found[step])
        assert "Traceback" not in found[step]
        assert "exit 0" not in found[step]
    assert "r1" in found["5"]
    assert "cancelled r1" in found["7"]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_folder_that_is_none_is_one_sentence(book: Book, kind: str, tmp_path: Path) -> None:
    """Nobody gets a lease while it is not known what is reserved."""
    folder = book.path / "reservations"
    folder.rmdir()
    if kind == "file":
        folder.write_text("")
    else:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "r1-0.reservation").write_text("{}")
        folder.symlink_to(tmp_path / "elsewhere")
    done = andon("run", "--simulate", "1", "--no-wait", "--", "true")
    assert done.code == 125
    assert "reservations" in done.err
    assert "Traceback" not in done.err


# Clocks.


@pytest.fixture
def clock(own_places: Path, monkeypatch: pytest.MonkeyPatch) -> WallClock:
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")
    made = WallClock(own_places)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.mark.long
@pytest.mark.parametrize("step", [2 * HOUR, -2 * HOUR])
def test_a_clock_that_steps_across_a_start_moves_no_lease(clock: WallClock, step: float) -> None:
    sim = ("--simulate", "1")
    with running("lease", *sim, "--for", "50m", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        [lease] = held()
        made = andon("reserve", *sim, "--from", "1h", "--for", "4h")
        assert "reserved r1" in made.out, made.err
        clock.step(int(step))
        [row] = andon("leases", "--json").json()["leases"]
        assert row["id"] == lease
        assert process.poll() is None
        [one] = andon("reservations", "--json").json()["reservations"]
        left = one["begins"] - clock.now()
        assert abs(left - (HOUR - step)) < 60, "it is for a time on the wall clock"
        assert one["blocked"] is (step > 0), "the lease is now older than its start, and stays"
        clock.step(-int(step))
        assert process.poll() is None
        assert held() == [lease]


def test_a_step_of_the_clock_makes_neither_two_nor_none(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = reserve(book)
    real = time.time
    for step in (2 * HOUR, -48 * HOUR, 30 * 24 * HOUR, 0):
        monkeypatch.setattr(time, "time", lambda step=step: real() + step)
        seen(book)
        assert [r.begins for r in book.reservations()] == [one.begins], "its file stays"
    assert seen(book) == {("r1", round(one.begins))}


# Away at its start.


def test_a_machine_that_was_off_at_the_start_gives_it_back_and_its_owner_hears_of_it_once(
    book: Book,
) -> None:
    write(book, time.time() - UNUSED_SECONDS - 60)
    free = andon("free", "--simulate", "1")
    assert "1 of 1 free" in free.out
    assert re.search(r"your reservation r1 was not used by \d\d:\d\d and is free again", free.err)
    assert len(free.err.splitlines()) == 1
    assert "r1" not in andon("free", "--simulate", "1").err, "once"
    assert list((book.path / "reservations").iterdir()) == []


@pytest.mark.parametrize("words", ["reservations", "run", "lease", "reserve"])
def test_every_command_about_sharing_says_so(book: Book, words: str) -> None:
    write(book, time.time() - 3 * HOUR)
    more = {
        "reservations": (), "reserve": ("--simulate", "2", "--for", "1h"),
        "run": ("--simulate", "1", "--", "true"), "lease": ("--simulate", "1", "--", "true"),
    }[words]  # fmt: skip
    done = andon(words, *more)
    assert done.code == 0, done.err
    assert done.err.count("your reservation r1 was not used") == 1


def test_one_that_began_while_the_machine_was_off_is_in_force_for_the_rest(book: Book) -> None:
    write(book, time.time() - UNUSED_SECONDS + 300)
    done = andon("run", "--simulate", "1", "--no-wait", "--", "true")
    assert done.code == 0, done.err
    assert [one.used for one in book.reservations()] == [True]


def test_an_owner_who_waits_for_an_older_lease_keeps_the_reservation(book: Book) -> None:
    with running("lease", "--simulate", "1", "--for", "5h", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        [lease] = held()
        since = time.time() + 0.001
        write(book, since)
        [one] = book.reservations()
        assert one.blocked
        assert not one.used
        assert not is_over(one, time.time() + HOUR)
        refused = andon("run", "--simulate", "1", "--no-wait", "--", "true")
        assert refused.code == 125
        assert [one.used for one in book.reservations()] == [True], "its owner wants it"
        assert andon("release", lease).code == 0


def test_after_an_older_lease_its_owner_has_half_an_hour_although_nobody_waited(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running("lease", "--simulate", "1", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        [lease] = held()
        one = write(book, time.time() + 0.001)
        path = next((book.path / "reservations").glob("*.reservation"))
        made = path.stat().st_ctime
        assert list(path.parent.glob("*.note")) == [], "nobody has looked since it began"
        assert andon("release", lease).code == 0
    [after] = Book().reservations()
    assert not after.blocked
    assert not after.used
    assert after.delayed >= made
    assert after.delayed > one.begins
    assert after.lapses == after.delayed + UNUSED_SECONDS
    assert is_over(after, after.lapses), "and not longer"


def older(book: Book) -> tuple[LeaseHold, Reservation]:
    """A lease from before a reservation whose time it is; nobody has looked since."""
    one = write(book, time.time() + HOUR)
    [device] = one.devices
    share = Share(device.uuid, device.index)
    with book.locked():
        hold = book.write_lease(replace(lease(since=time.time()), shares=(share,)))
        one = replace(one, begins=time.time() + 0.001)
        book.reserve(one)
    wait_for(lambda: time.time() > one.begins)
    assert notes(book) == []
    return hold, one


def notes(book: Book) -> list[Path]:
    return list((book.path / "reservations").glob("*.note"))


def test_after_a_killed_lease_its_owner_has_half_an_hour_from_the_first_look(book: Book) -> None:
    hold, one = older(book)
    hold.hold.close()  # as the kernel does when its holder is killed: the file stays
    assert (held(), len(entries())) == ([], 1)
    [first] = Book().reservations()
    assert (first.blocked, first.used) == (False, False)
    assert first.delayed > one.begins
    assert first.lapses == first.delayed + UNUSED_SECONDS
    [note] = notes(book)
    made = note.stat().st_ctime_ns
    [second] = Book().reservations()
    assert [one.stat().st_ctime_ns for one in notes(book)] == [made], "once, by whoever looks"
    assert abs(second.delayed - first.delayed) < 60
    assert is_over(second, made / 1e9 + UNUSED_SECONDS + 1), "its file is still there"


def test_a_holder_without_its_program_notes_the_end_of_its_lease(book: Book) -> None:
    hold, _ = older(book)
    holder = HolderProcess(detached=True)
    holder.take_over(hold)
    assert (len(held()), notes(book)) == (1, [])
    holder.recall()
    holder.process.wait(timeout=60)
    holder.disconnect()
    assert entries() == []
    assert len(notes(book)) == 1
    [after] = Book().reservations()
    assert after.lapses == after.delayed + UNUSED_SECONDS


def test_one_that_is_made_while_a_lease_is_extended_takes_the_extension_back(book: Book) -> None:
    need_root()
    at, made = time.time(), write(book, time.time() + 2 * HOUR)
    with book.locked():
        book.cancel(made)
    shares = tuple(Share(one.uuid, one.index) for one in made.devices)
    ends = list[float]()

    def stamp(until: float) -> None:
        if not ends:
            book.reserve(made, NOBODY_KNOWS)
        ends.append(until)

    before = replace(lease(since=at, until=at + HOUR), shares=shares)
    with pytest.raises(Conflict, match="has reserved its GPUs in"):
        move_end(book, before, 0, at + 3 * HOUR, stamp)
    assert ends == [at + 3 * HOUR, at + HOUR]


def test_a_cancelled_one_counts_as_long_as_it_lasted(book: Book) -> None:
    write(book, time.time() - HOUR / 3)
    andon("run", "--simulate", "1", "--", "true")
    [one] = book.reservations()
    assert andon("reserve", "cancel", "r1").code == 0
    assert "1 of 1 free" in andon("free", "--simulate", "1").out
    assert "nothing is reserved" in andon("reservations").out
    [left] = book.reservations()
    assert (left.id, left.begins, is_over(left, time.time())) == ("r1", one.begins, True)
    next_one = replace(reserve(book, 1, 1.0, 2.0), id="r3")
    assert 0 <= week_seconds(next_one, [left]) - 2 * HOUR - HOUR / 3 < 60


# Whose account is gone.


def test_the_reservation_of_a_deleted_account_is_shown_by_its_uid_and_root_cancels_it(
    book: Book,
) -> None:
    need_root()
    one = write(book, time.time() + HOUR)
    [path] = (book.path / "reservations").iterdir()
    os.chown(path, NOBODY_KNOWS, NOBODY_KNOWS)
    listed = andon("reservations", "--json").json()["reservations"]
    assert [(row["id"], row["uid"], row["user"]) for row in listed] == [
        (one.id, NOBODY_KNOWS, str(NOBODY_KNOWS))
    ]
    free = andon("free", "--simulate", "1")
    assert f"reserved by {NOBODY_KNOWS} in" in free.out
    assert andon("reserve", "cancel", "r1").code == 0
    assert json.loads(andon("reservations", "--json").out)["reservations"] == []


def test_a_failed_write_leaves_what_was_there(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever call fails: its error is a sentence, and the reservation as it was."""
    one = reserve(book)
    for name in ("rename", "fsync", "fchmod", "write"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, _failing)
            with pytest.raises(AndonError, match="cannot be written: No space left"):
                reserving.change(book, "r1", time.time() + 5 * HOUR, None)
        assert seen(book) == {("r1", round(one.begins))}, name


def _failing(*_args: object, **_more: object) -> None:
    raise OSError(28, "No space left on device")
