"""Reservations: what they keep from whom, what may be reserved, and files that others wrote."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied, Invalid
from andon.leases.book import reservations as files
from andon.leases.rules.policy import UserLimits
from andon.leases.rules.reservations import (
    MOST_AHEAD_SECONDS,
    check_times,
    current_of,
    first_after,
    for_user,
    is_over,
    lapsing,
    overlapping,
    pick_devices,
    reserved_by_others,
    undisputed,
    week_seconds,
    with_older_leases,
    without_reserved,
)
from andon.model.codec import document
from andon.model.lease import BookEntry, Need, Reservation, ReservedDevice, Ticket
from andon.model.lease_list import LeaseList
from andon.model.verdict import DeviceVerdict, VerdictKind
from tests.integration.parts import need_root
from tests.support.reservations import AT, HOUR, reservation
from tests.support.rows import rows
from tests.support.sharing_parts import lease, ticket

UNUSED_SECONDS = UserLimits().max_reserved_unused or 0.0
GPU = ReservedDevice("GPU-0", 0)


@rows(
    "begins, until, is_kept",
    [
        (AT + HOUR, None, True),  # without an end it would last into it
        (AT + HOUR, AT + HOUR, False),  # it ends as the reservation begins
        (AT + HOUR, AT + HOUR + 1, True),
        (AT - 60, AT + 1, True),  # it has begun
        (AT - UNUSED_SECONDS, AT + 1, False),  # and nobody has used it
        (AT - 3 * HOUR, None, False),  # it is over
    ],
)
def test_a_device_is_kept_from_leases_that_would_last_into_a_reservation(
    begins: float, until: float | None, is_kept: bool
) -> None:
    one = lapsing(reservation(begins=begins), UNUSED_SECONDS)
    assert bool(reserved_by_others([one], 2, AT, until)) is is_kept
    assert reserved_by_others([one], 1, AT, until) == {}, "its owner may have it"
    assert reserved_by_others([], 2, AT, until) == {}


def test_a_servers_verdicts_are_those_of_who_asks() -> None:
    """The list is made for the server's user 9, who has reserved g1 as u1 has g0."""
    free = DeviceVerdict("g2", 2, "2", VerdictKind.FREE)
    held = replace(free, uuid="g3", index=3, kind=VerdictKind.HELD, code="leased", by="u5")
    other = replace(free, uuid="g0", index=0, kind=VerdictKind.WITHHELD, code="reserved", by="u1")
    own = replace(free, uuid="g1", index=1)
    made = (reservation(("g0", "g3")), reservation(("g1",), uid=9, id_="r2"),
            reservation(("g2",), uid=-1, id_="slurm1", used=True))  # fmt: skip
    found = LeaseList(AT, devices=(other, own, free, held), reservations=made, verdicts_for=9)

    def seen(uid: int | None) -> list[str | None]:
        shown = for_user(found, uid)
        assert shown.verdicts_for == uid
        assert [one.uuid for one in shown.devices] == ["g0", "g1", "g2", "g3"]
        return [one.by if one.kind is not VerdictKind.FREE else None for one in shown.devices]

    assert for_user(found, 9) is found
    assert seen(1) == [None, "u9", None, "u5"], "their own keeps nothing from them"
    assert seen(4) == seen(None) == ["u1", "u9", None, "u5"]
    assert for_user(replace(found, reservations=()), 1).verdicts_for == 9, "nothing is reserved"


def test_what_is_said_of_it() -> None:
    later = reserved_by_others([reservation()], 2, AT, None)["g0"]
    assert (later.reason, later.until, later.by) == (
        "reserved by u1 in 1 h; free for a shorter --for", None, "u1",
    )  # fmt: skip
    now = reserved_by_others([reservation(begins=AT - 60, used=True)], 2, AT, None)["g0"]
    assert now.reason.startswith("reserved by u1 for another 1 h 59 min")
    assert now.until == AT - 60 + 2 * HOUR


def test_a_used_reservation_lasts_to_its_end() -> None:
    begun = reservation(begins=AT - UNUSED_SECONDS)
    unused, used = (
        lapsing(begun, UNUSED_SECONDS),
        lapsing(replace(begun, used=True), UNUSED_SECONDS),
    )
    assert is_over(unused, AT)
    assert not is_over(used, AT)
    assert not is_over(lapsing(begun, UNUSED_SECONDS + 1), AT), "root's policy keeps it longer"
    assert not is_over(lapsing(begun, None), begun.ends - 1), "to its end"
    assert is_over(lapsing(begun, None), begun.ends)
    assert current_of([unused, used], 1, AT) == (used,)


def test_after_a_lease_from_before_its_owner_has_the_whole_time_to_use_it() -> None:
    begun = replace(reservation(begins=AT - 2 * UNUSED_SECONDS), delayed=AT - 60)
    assert not is_over(lapsing(begun, UNUSED_SECONDS), AT - 61 + UNUSED_SECONDS)
    assert is_over(lapsing(begun, UNUSED_SECONDS), AT - 60 + UNUSED_SECONDS)
    early = replace(begun, delayed=begun.begins - 60)
    assert lapsing(early, UNUSED_SECONDS).lapses == begun.begins + UNUSED_SECONDS, "never shorter"


def test_a_reservation_begins_when_the_leases_from_before_have_ended() -> None:
    begun, at = reservation(begins=AT, uid=1), AT + UNUSED_SECONDS + HOUR

    def held(
        since: float, uuid: int = 0, locked: bool = True, until: float | None = None
    ) -> BookEntry:
        return BookEntry("f", 2, "u2", locked, lease(uuid, since=since, until=until))

    def seen(*entries: BookEntry) -> Reservation:
        one = lapsing(replace(begun, devices=(GPU,)), UNUSED_SECONDS)
        (found,) = with_older_leases((one,), lambda: entries, at)
        return found

    assert seen(held(AT - 60)).blocked
    assert not is_over(seen(held(AT - 60)), at)
    assert not seen(held(AT + UNUSED_SECONDS)).blocked, "it was given back, then leased"
    assert not seen(held(AT - 60, uuid=1)).blocked, "another device"
    killed = seen(held(AT - 60, locked=False))
    assert not killed.blocked, "it has ended"
    assert (killed.delayed, killed.lapses) == (at, at + UNUSED_SECONDS), "when is not known"
    assert is_over(seen(held(AT - 60, locked=False, until=AT)), at), "before it began"
    assert is_over(seen(held(AT, locked=False)), at), "it was given back, then leased"
    assert is_over(seen(), at)
    later = replace(begun, begins=at + 1, ends=at + HOUR)
    assert with_older_leases((later,), unread, at) == (later,), "the leases are not read for it"


def unread() -> list[BookEntry]:
    raise AssertionError


def test_a_lease_is_not_extended_into_anothers_reservation() -> None:
    one = reservation()
    assert first_after([one], 2, ["g0"], AT, AT + 2 * HOUR) == one
    assert first_after([one], 2, ["g0"], AT, AT + HOUR) is None
    assert first_after([one], 2, ["g1"], AT, AT + 2 * HOUR) is None
    assert first_after([one], 1, ["g0"], AT, AT + 2 * HOUR) is None


@rows(
    "begins, ends, error",
    [
        (AT - 2 * HOUR, AT, Invalid),
        (AT + HOUR, AT + HOUR, Invalid),
        (AT + HOUR, AT, Invalid),
        (AT + MOST_AHEAD_SECONDS + 1, AT + MOST_AHEAD_SECONDS + HOUR, Invalid),
    ],
)
def test_times_that_cannot_be_reserved(begins: float, ends: float, error: type[AndonError]) -> None:
    with pytest.raises(error):
        check_times(begins, ends, AT)


DAY, WEEK = 24 * HOUR, 7 * 24 * HOUR


@rows(
    "count, ahead, week, words",
    [
        (3, 0.0, 0.0, "to reserve 2 GPUs of 4 at a time; 3 GPUs requested"),
        (2, WEEK + 1, 0.0, "to reserve 7 d ahead; this one begins in 7 d"),
        (2, 0.0, 48 * HOUR + 1, "to reserve 2 d in seven days; with this one it would be 2 d"),
        (2, WEEK, 48 * HOUR, None),
    ],
)
def test_what_one_user_may_reserve(
    count: int, ahead: float, week: float, words: str | None
) -> None:
    if words is None:
        UserLimits().check_reservation(count, 4, ahead, week)
        return
    with pytest.raises(Denied) as refused:
        UserLimits(user="eve").check_reservation(count, 4, ahead, week)
    assert words in refused.value.reason
    assert refused.value.reason.startswith("the default allows eve")
    assert refused.value.hint
    free = UserLimits(max_reserve_ahead=None, max_reserved_gpus=None, max_reserved_time=None)
    free.check_reservation(count, 4, ahead, week)


def test_one_of_one_device_may_be_reserved() -> None:
    UserLimits().check_reservation(1, 1, 0.0, 0.0)
    with pytest.raises(Denied):
        UserLimits(max_reserved_gpus=0).check_reservation(1, 4, 0.0, 0.0)


def test_the_hours_of_any_seven_days_count() -> None:
    one = reservation(hours=10)
    assert week_seconds(one, []) == 10 * HOUR
    assert week_seconds(one, [replace(one, begins=AT)]) == 10 * HOUR, "it is changed, not added"
    assert week_seconds(one, [reservation(hours=10, uid=2, id_="r2")]) == 10 * HOUR
    for begins, wanted in (
        (one.begins + DAY, 20), (one.begins - DAY, 20), (one.ends + WEEK, 10),
        (one.begins + WEEK - 2 * HOUR, 12), (one.begins - WEEK + 3 * HOUR, 13),
    ):  # fmt: skip
        other = reservation(begins=begins, hours=10, id_="r2")
        assert week_seconds(one, [other]) == wanted * HOUR, (begins - AT) / HOUR


DEVICES = ("g0", "g1", "g2", "g3")
WISH = st.tuples(
    st.integers(1, 4), st.integers(0, 20), st.integers(1, 10), st.integers(1, 3)
)  # devices, begin, length in hours, user


MOVE = st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 10))  # which, to where


@given(st.lists(WISH, max_size=12), st.lists(MOVE, max_size=6))
def test_no_device_is_promised_twice_at_one_time(
    wishes: list[tuple[int, int, int, int]], moves: list[tuple[int, int, int]]
) -> None:
    made = list[Reservation]()
    for number, (count, begin, length, uid) in enumerate(wishes):
        begins, ends = AT + begin * HOUR, AT + (begin + length) * HOUR
        try:
            uuids = pick_devices(DEVICES, count, [(begins, ends)], made, {}, AT)
        except Conflict:
            continue
        one = reservation(sorted(uuids), begins, length, uid, f"r{number}")
        assert overlapping(one, made, AT) == {}
        made.append(one)
    for place, begin, length in moves:
        times = {"begins": AT + begin * HOUR, "ends": AT + (begin + length) * HOUR}
        for one in made[place : place + 1]:
            if not overlapping(moved := replace(one, **times), made, AT):
                made[place] = moved
    for one in made:
        others = [other for other in made if other.id != one.id and other.uuids & one.uuids]
        assert all(o.ends <= one.begins or one.ends <= o.begins for o in others)


@given(
    st.lists(WISH, max_size=8), st.integers(0, 25), st.none() | st.integers(1, 20),
    st.integers(1, 3),
)  # fmt: skip
def test_a_lease_that_is_granted_delays_no_reservation(
    wishes: list[tuple[int, int, int, int]], hour: int, length: int | None, uid: int
) -> None:
    made = [
        reservation(DEVICES[:count], AT + begin * HOUR, hours, owner, f"r{number}", used=True)
        for number, (count, begin, hours, owner) in enumerate(wishes)
    ]
    now = AT + hour * HOUR
    until = None if length is None else now + length * HOUR
    kept = reserved_by_others(made, uid, now, until)
    for uuid in set(DEVICES) - kept.keys():
        for one in made:
            if uuid in one.uuids and one.uid != uid:
                assert one.ends <= now or (until is not None and until <= one.begins)


STEP = st.one_of(
    st.tuples(st.just("reserve"), st.integers(1, 3), st.integers(0, 9), st.integers(1, 6)),
    st.tuples(st.just("change"), st.integers(0, 5), st.integers(0, 9), st.integers(1, 6)),
    st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0), st.just(0)),
    st.tuples(st.just("lease"), st.integers(0, 3), st.just(0), st.none() | st.integers(1, 6)),
    st.tuples(st.just("use"), st.integers(0, 5), st.just(0), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 4), st.just(0), st.just(0)),
)


class Lab:
    """Some hours of reservations and leases of three users, decided by the rules alone."""

    def __init__(self) -> None:
        self.now, self.serial = AT, 0
        self.made = dict[str, Reservation]()
        self.order = dict[str, int]()  # when each was last promised
        self.leases = list[tuple[int, int, str, float | None]]()

    def step(self, uid: int, act: str, first: int, begin: int, length: int | None) -> None:
        self.serial += 1
        at = self.now
        begins, ends = at + begin * HOUR / 2, at + (begin / 2 + (length or 0)) * HOUR
        one = self.made.get(f"r{first}")
        if act == "wait":
            self.now += first * HOUR / 4
        elif act == "reserve":
            with suppress(Conflict):
                existing = tuple(self.made.values())
                uuids = pick_devices(DEVICES, first, [(begins, ends)], existing, {}, at)
                self.put(reservation(sorted(uuids), begins, (ends - begins) / HOUR, uid,
                                     f"r{len(self.made)}"))  # fmt: skip
        elif act == "lease":
            self.lease(uid, DEVICES[first], None if length is None else at + length * HOUR)
        elif one is not None and not is_over(one, at):
            if act == "use":
                self.made[one.id] = replace(one, used=one.begins <= at)
            elif act == "cancel":
                self.made[one.id] = replace(one, ends=at)
            elif not overlapping(moved := replace(one, begins=begins, ends=ends),
                                 self.made.values(), at):  # fmt: skip
                self.put(moved)

    def lease(self, uid: int, uuid: str, until: float | None) -> None:
        if uuid not in reserved_by_others(self.made.values(), uid, self.now, until):
            self.leases.append((self.serial, uid, uuid, until))
            for mine in current_of(self.made.values(), uid, self.now):
                if uuid in mine.uuids:
                    self.made[mine.id] = replace(mine, used=True)

    def put(self, one: Reservation) -> None:
        self.made[one.id], self.order[one.id] = one, self.serial


@given(st.lists(st.tuples(st.integers(1, 3), STEP), max_size=40))
def test_whatever_is_reserved_changed_cancelled_and_leased_no_promise_is_broken(
    steps: list[tuple[int, tuple[str, int, int, int | None]]],
) -> None:
    lab = Lab()
    for uid, step in steps:
        lab.step(uid, *step)
        ahead = [one for one in lab.made.values() if not is_over(one, lab.now)]
        for place, one in enumerate(ahead):
            for other in ahead[place + 1 :]:
                apart = one.ends <= other.begins or other.ends <= one.begins
                assert apart or not one.uuids & other.uuids, "promised twice at one time"
        for serial, owner, uuid, until in lab.leases:
            for one in ahead:
                if lab.order[one.id] < serial and one.uid != owner and uuid in one.uuids:
                    assert until is not None
                    assert until <= one.begins, "a reservation is delayed by a later lease"


def test_devices_that_no_lease_holds_then_come_first() -> None:
    leases = {"g0": None, "g1": AT + 5 * HOUR, "g2": AT + HOUR}
    times = [(AT + 2 * HOUR, AT + 3 * HOUR)]
    assert pick_devices(DEVICES, 2, times, [], leases, AT) == ["g2", "g3"]
    assert pick_devices(DEVICES, 4, times, [], leases, AT)
    with pytest.raises(Conflict, match="2 GPUs wanted, 1 not reserved"):
        pick_devices(("g0", "g1"), 2, times, [reservation()], {}, AT)
    weekly = [(begins + WEEK, ends + WEEK) for begins, ends in times] + times
    assert pick_devices(("g0", "g1"), 1, weekly, [reservation()], {}, AT) == ["g1"]


# Files.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reservations").mkdir()
    return tmp_path / "reservations"


def test_a_reservation_is_written_changed_marked_and_removed(folder: Path) -> None:
    one = reservation(uid=os.getuid())
    files.write(folder, one)
    (found,) = files.read(folder)
    assert (found.id, found.uid, found.used) == ("r1", os.getuid(), False)
    files.write(folder, replace(found, ends=found.ends + HOUR))
    (changed,) = files.read(folder)
    assert changed.ends == found.ends + HOUR
    files.note_use(folder, changed)
    (used,) = files.read(folder)
    assert used.used
    files.write(folder, used)
    assert files.read(folder)[0].used, "a change keeps the mark"
    files.write(folder, replace(used, used=False))
    assert not files.read(folder)[0].used, "one for a time to come does not"
    files.note_use(folder, used)
    files.remove(folder, used)
    assert files.read(folder) == ()
    assert list(folder.iterdir()) == [], "its notes are removed with it"


def test_a_lease_from_before_is_noted_now_and_then_and_only_while_it_is_reserved(
    folder: Path,
) -> None:
    one = reservation(uid=os.getuid())
    files.note_blocked(folder, one)
    assert list(folder.iterdir()) == [], "nothing is reserved"
    files.write(folder, one)
    files.note_blocked(folder, one)
    (seen,) = files.read(folder)
    assert abs(seen.delayed - time.time()) < HOUR
    before = [path.stat().st_ctime_ns for path in folder.glob("*.note")]
    files.note_blocked(folder, seen)
    assert [path.stat().st_ctime_ns for path in folder.glob("*.note")] == before
    files.note_blocked(folder, replace(seen, delayed=0.0))
    (again,) = files.read(folder)
    assert again.delayed >= seen.delayed
    assert len(list(folder.glob("*.note"))) == 1
    files.write(folder, one)
    assert files.read(folder)[0].delayed == 0.0, "it is moved: what was seen before is of no use"


def test_who_is_not_its_owner_cannot_mark_it_as_used(folder: Path) -> None:
    need_root()
    files.write(folder, reservation(uid=os.getuid()), 1)
    (one,) = files.read(folder)
    (folder / f"r1-1-used-{'0' * 16}.note").touch()
    os.chown(folder / f"r1-1-used-{'0' * 16}.note", 2, 2)
    assert not files.read(folder)[0].used
    os.chown(folder / f"r1-1-used-{'0' * 16}.note", 1, 1)
    assert files.read(folder)[0].used
    files.write(folder, replace(one, ends=one.ends + 1), 1)
    assert not files.read(folder)[0].used, "a note from before it was made says nothing"


def test_an_earlier_file_that_is_written_again_or_set_back_comes_last(folder: Path) -> None:
    """The kernel's time of the last change is the order: no one can set it."""
    need_root()
    trap = folder / "r9-0.reservation"
    trap.touch()
    os.chown(trap, 2, 2)
    soon = time.time() + HOUR
    files.write(folder, reservation(begins=soon, uid=1), 1)
    mine = [path for path in folder.iterdir() if path != trap]
    forged = reservation(begins=soon - 1, hours=9, uid=2, id_="r9")
    later = max(path.stat().st_ctime_ns for path in mine)
    while trap.stat().st_ctime_ns <= later:  # the kernel's clock of files is coarse
        trap.write_text(json.dumps(document(forged)))
        os.utime(trap, (0, 0))
    assert [(one.uid, one.id) for one in files.read(folder)] == [(1, "r1")]
    files.note_use(folder, files.read(folder)[0])
    assert [(one.uid, one.used) for one in files.read(folder)] == [(1, True)], "nor by its use"


def _hostile() -> dict[str, bytes]:
    good = {
        "schema": Reservation.schema, "id": "r1", "devices": [{"uuid": "g0", "index": 0}],
        "begins": time.time() + 60, "ends": time.time() + 120,
    }  # fmt: skip

    def but(**more: object) -> bytes:
        return json.dumps({**good, **more}).encode()

    return {
        "nothing": b"", "no JSON": b"{", "binary": bytes(range(256)), "large": b"x" * 200_000,
        "another schema": but(schema="andon.lease/1"), "no devices": but(devices=[]),
        "ends first": but(ends=1.0), "never": but(begins="soon"), "not a number": but(ends=1e300),
        "another id": but(id="r2"), "an id of a path": but(id="../x"),
        "many devices": but(devices=good["devices"] * 2000),  # type: ignore[operator]
    }  # fmt: skip


@pytest.mark.parametrize("kind", _hostile())
def test_a_file_that_is_no_reservation_is_none(folder: Path, kind: str) -> None:
    files.write(folder, reservation(uid=os.getuid()))
    (folder / "r1-0.reservation").write_bytes(_hostile()[kind])
    (folder / "r9-0.reservation").symlink_to("/etc/passwd")
    os.mkfifo(folder / "r8-0.reservation")
    assert [one.id for one in files.read(folder)] == ["r1"]


def test_whoever_a_file_names_its_owner_is_the_kernels(folder: Path) -> None:
    forged = replace(reservation(uid=4711), user="root", used=False, delayed=AT, lapses=AT * 2)
    files.write(folder, forged)
    (found,) = files.read(folder)
    assert found.uid == os.getuid()
    assert (found.used, found.delayed, found.lapses) == (False, 0.0, None), "notes say that"
    assert found.user != "u4711"


# What others may have written, and who waits.


def test_a_file_by_hand_takes_nothing_from_an_earlier_one_and_nothing_for_ever() -> None:
    alices = reservation(uid=1)
    forged = replace(reservation(uid=2, id_="r1"), begins=0.0, ends=3e10)
    late = reservation(begins=AT + 2 * HOUR, uid=2, id_="r9")
    assert undisputed([(5.0, alices), (6.0, forged), (7.0, late)], AT) == (alices,)
    assert undisputed([(7.0, alices), (6.0, late)], AT) == (late,), "the one that was made first"
    apart = reservation(begins=AT + 3 * HOUR, uid=2, id_="r9")
    assert undisputed([(5.0, alices), (6.0, apart)], AT) == (alices, apart)


def test_who_waits_claims_nothing_that_is_reserved_for_another() -> None:
    now = [reservation(("g0", "g1"), AT - HOUR, uid=1, used=True)]

    def of(uid: int, *uuids: str, least: int = 1) -> Ticket:
        made = ticket("t")
        owner = replace(made.owner, uid=uid)
        return replace(made, owner=owner, need=Need(frozenset(uuids), least=least))

    mine, both = of(1, "g0"), of(2, "g0", "g2")
    waiting = [mine, of(2, "g0"), both, of(2, "g0", "g2", least=2)]
    found = without_reserved(waiting, now, AT)
    assert [one.need.eligible for one in found] == [{"g0"}, {"g2"}]
    assert without_reserved(waiting, [reservation(("g0",), uid=1)], AT) == waiting, "not yet"
