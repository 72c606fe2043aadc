"""One event, told by the driver and by the kernel's log: once, with its device and who ran."""

from hypothesis import given
from hypothesis import strategies as st

from andon.events.rules.reports import SAME_SECONDS, Reports, on_device, with_parties
from andon.model.device import Card, Device, Process, Reading, State
from andon.model.event import Event, EventKind, Party
from andon.sampling.rules.roster import RAN_SECONDS, Roster

BOARD = Device("GPU-a", 0, "nvidia", "H200", "0000:1b:00.0")
PART = Device("MIG-a", 0, "nvidia", "1g", "0000:1b:00.0", parent="GPU-a")
OTHER = Device("GPU-b", 1, "nvidia", "H200", "0001:1b:00.0")
TRAINING = Process(7, name="python", user="alice", command="python train.py", started=1.0)


def driver(code: int | None, at: float = 0.0, uuid: str = "GPU-a") -> Event:
    return Event(EventKind.XID, uuid, at, code, source="nvml")


def kernel(code: int, at: float = 0.0, pids: tuple[int, ...] = ()) -> Event:
    who = tuple(Party(pid, name="python") for pid in pids)
    return Event(EventKind.XID, "GPU-a", at, code, "words", "kernel log", pids, who)


def test_of_two_reports_in_one_tick_the_one_that_knows_more_is_told() -> None:
    assert Reports().new([driver(31), kernel(31, pids=(7,))], 0.0) == (kernel(31, pids=(7,)),)
    assert Reports().new([kernel(31), driver(31)], 0.0) == (kernel(31),)


def test_a_second_report_of_the_same_is_not_told_within_its_time() -> None:
    reports = Reports()
    assert reports.new([driver(79)], 10.0) == (driver(79),)
    assert reports.new([kernel(79)], 10.0 + SAME_SECONDS / 2) == ()
    assert reports.new([kernel(79)], 10.0 + SAME_SECONDS) == (kernel(79),), "it happened again"


def test_another_device_another_number_another_kind_is_another_event() -> None:
    ecc = Event(EventKind.ECC, "GPU-a", 0.0)
    different = [driver(48), driver(63), driver(48, uuid="GPU-b"), driver(None), ecc]
    assert set(Reports().new(different, 0.0)) == set(different)


def test_events_are_told_in_the_order_in_which_they_happened() -> None:
    told = Reports().new([driver(94, 3.0), kernel(63, 1.0, (1,)), driver(48, 2.0)], 5.0)
    assert [event.code for event in told] == [63, 48, 94]


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 3), st.booleans()), max_size=40))
def test_each_thing_is_told_at_least_once_and_never_twice_in_its_time(
    heard: list[tuple[float, int, bool]],
) -> None:
    reports, now = Reports(), 0.0
    last: dict[int | None, float] = {}
    for wait, code, by_driver in heard:
        now += wait
        told = reports.new([driver(code) if by_driver else kernel(code)], now)
        if told:
            assert code not in last or now - last[code] >= SAME_SECONDS
            last[code] = now
        assert code in last
        assert len(reports.seen) <= 3, "what is over is forgotten"


def test_an_address_finds_its_board_however_it_is_spelt() -> None:
    for spelling in ("0000:1b:00", "00000000:1b:00", "0000:1B:00.0"):
        report = Event(EventKind.XID, None, 0.0, 79, pci=spelling)
        assert on_device(report, [OTHER, PART, BOARD]).uuid == "GPU-a"
    far = Event(EventKind.XID, None, 0.0, 79, pci="0000:52:00")
    assert on_device(far, [OTHER, BOARD]).uuid is None
    assert on_device(Event(EventKind.XID, None, 0.0, 79), [BOARD]).uuid is None


def test_whom_the_report_names_comes_first_and_is_known_by_more_than_its_pid() -> None:
    other = Process(3, name="jupyter", user="bob")
    named = with_parties(kernel(31, pids=(7,)), [other, TRAINING])
    assert named.who == (
        Party(7, "alice", "python", "python train.py", 1.0),
        Party(3, "bob", "jupyter"),
    )
    gone = with_parties(kernel(31, pids=(99,)), [])
    assert gone.who == (Party(99, name="python"),)


def test_who_ran_on_a_device_is_known_a_while_after_it_fell_silent_and_was_lost() -> None:
    roster = Roster("nvidia", 1.0)
    roster.opened([Card("a", 0, "0000:1b:00.0")], 0.0, 0.0)
    roster.described("a", [BOARD], 0.0)
    roster.answered("a", [Reading("GPU-a", processes=(TRAINING,))], 1.0)
    assert roster.ran_on("GPU-a", 1.0) == (TRAINING,)
    roster.failed("a", "slow", "", 2.0)
    roster.lost("a", "gone", "", 3.0)
    assert roster.entries["GPU-a"].state is State.LOST
    assert roster.entries["GPU-a"].processes == ()
    assert roster.ran_on("GPU-a", 4.0) == (TRAINING,)
    assert roster.ran_on("GPU-a", 3.0 + RAN_SECONDS + 1) == (), "that is no longer who ran"
    roster.answered("a", [Reading("GPU-a")], 5.0)
    assert roster.ran_on("GPU-a", 5.0) == ()
    assert roster.ran_on("GPU-x", 5.0) == ()
