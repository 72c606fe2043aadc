"""What state a device is in, from what was said and when."""

from andon.model.device import Card, Device, DeviceStatus, Process, Reading, Sample, State
from andon.sampling.rules.roster import Roster, order

CARDS = [Card("0000:01:00.0", 0, "0000:01:00.0"), Card("0000:02:00.0", 1, "0000:02:00.0")]
DEVICES = [
    Device("GPU-a", 0, "nvidia", "H200", "0000:01:00.0"),
    Device("GPU-b", 1, "nvidia", "H200", "0000:02:00.0"),
]


def ok(uuid: str, at: float) -> Reading:
    return Reading(uuid, Sample(at, utilization_percent=50), processes=(Process(7),))


def opened(at: float = 100.0, now: float = 0.0) -> Roster:
    roster = Roster("nvidia", deadline_seconds=1.0)
    roster.opened(CARDS, at, now)
    roster.requested(now)
    for card, device in zip(CARDS, DEVICES, strict=True):
        roster.described(card.key, [device], at)
        roster.answered(card.key, [ok(device.uuid, at)], at)
    return roster


def shown(roster: Roster) -> dict[str, DeviceStatus]:
    return {status.device.uuid: status for status in roster.statuses({})}


def states(roster: Roster) -> dict[str, State]:
    return {uuid: status.state for uuid, status in shown(roster).items()}


def test_a_device_that_answered_is_ok() -> None:
    roster = opened()
    roster.settle(100.0, 0.1, None)
    assert states(roster) == {"GPU-a": State.OK, "GPU-b": State.OK}


def test_one_silent_device_is_stale_and_the_other_goes_on() -> None:
    roster = opened()
    roster.requested(10.0)
    roster.answered(CARDS[0].key, [ok("GPU-a", 110.0)], 110.0)
    roster.settle(111.0, 11.0, None)
    assert states(roster) == {"GPU-a": State.OK, "GPU-b": State.STALE}
    stale = shown(roster)["GPU-b"]
    assert stale.reason == "driver call stuck for 1 s"
    assert stale.since == 111.0
    assert stale.sample is not None
    assert stale.sample.at == 100.0, "the last sample stays, with its own time"
    assert stale.processes == (), "who is on it now is not known"


def test_the_reason_counts_the_seconds_and_since_does_not_move() -> None:
    roster = opened()
    roster.requested(10.0)
    roster.settle(111.0, 11.0, None)
    roster.requested(22.0)
    roster.settle(122.0, 22.0, None)
    assert shown(roster)["GPU-b"].reason == "driver call stuck for 12 s"
    assert shown(roster)["GPU-b"].since == 111.0


def test_a_device_that_is_late_by_less_than_the_deadline_stays_ok() -> None:
    roster = opened()
    roster.requested(10.0)
    roster.settle(110.9, 10.9, None)
    assert set(states(roster).values()) == {State.OK}


def test_a_late_answer_cures_it() -> None:
    roster = opened()
    roster.requested(10.0)
    roster.settle(111.0, 11.0, None)
    roster.answered(CARDS[1].key, [ok("GPU-b", 130.0)], 130.0)
    assert shown(roster)["GPU-b"].state is State.OK
    assert shown(roster)["GPU-b"].reason is None
    assert shown(roster)["GPU-b"].since == 130.0


def test_a_busy_card_is_not_asked_again() -> None:
    roster = opened()
    assert roster.requested(10.0) == [card.key for card in CARDS]
    roster.answered(CARDS[0].key, [ok("GPU-a", 110.0)], 110.0)
    assert roster.requested(11.0) == [CARDS[0].key]


def test_a_tick_waits_for_a_hung_card_only_once() -> None:
    roster = opened()
    roster.requested(10.0)
    assert roster.awaited_until(10.0) == 11.0
    roster.answered(CARDS[0].key, [ok("GPU-a", 110.0)], 110.0)
    assert roster.awaited_until(11.0) is None
    roster.requested(12.0)
    assert roster.awaited_until(12.0) == 13.0, "for the healthy one"
    roster.answered(CARDS[0].key, [ok("GPU-a", 112.0)], 112.0)
    assert roster.awaited_until(12.1) is None


def test_a_lost_card_says_so_and_keeps_its_place() -> None:
    roster = opened()
    roster.requested(1.0)
    roster.lost(CARDS[1].key, "fallen off the bus", "see dmesg", 101.0)
    lost = shown(roster)["GPU-b"]
    assert (lost.state, lost.reason, lost.hint) == (State.LOST, "fallen off the bus", "see dmesg")
    roster.settle(200.0, 100.0, None)
    assert shown(roster)["GPU-b"].state is State.LOST
    assert roster.has_lost()


def test_a_card_that_was_lost_before_it_was_described_is_shown_by_its_address() -> None:
    roster = Roster("nvidia", 1.0)
    roster.opened(CARDS, 100.0, 0.0)
    roster.requested(0.0)
    roster.lost(CARDS[1].key, "lost", "", 100.0)
    assert states(roster) == {"nvidia@0000:02:00.0": State.LOST}


def test_a_card_that_hangs_before_it_is_described_is_shown_stale() -> None:
    roster = Roster("nvidia", 1.0)
    roster.opened(CARDS, 100.0, 0.0)
    roster.requested(0.0)
    roster.settle(101.0, 1.0, None)
    assert states(roster) == {
        "nvidia@0000:01:00.0": State.STALE,
        "nvidia@0000:02:00.0": State.STALE,
    }


def test_its_true_name_replaces_its_address() -> None:
    roster = Roster("nvidia", 1.0)
    roster.glanced(CARDS, 99.0)
    roster.opened(CARDS, 100.0, 0.0)
    roster.described(CARDS[0].key, [DEVICES[0]], 100.0)
    assert set(states(roster)) == {"GPU-a", "nvidia@0000:02:00.0"}


def test_cards_of_the_host_that_a_container_was_not_given_vanish() -> None:
    roster = Roster("nvidia", 1.0)
    roster.glanced(CARDS, 99.0)
    roster.opened([Card("index 0", 0)], 100.0, 0.0)
    roster.described("index 0", [DEVICES[1]], 100.0)
    assert set(states(roster)) == {"GPU-b"}


def test_a_driver_that_is_unloaded_loses_every_device_with_its_reason() -> None:
    roster = opened()
    roster.down("the driver is not loaded", "modprobe", 105.0)
    assert set(states(roster).values()) == {State.LOST}
    assert shown(roster)["GPU-a"].reason == "the driver is not loaded"


def test_a_driver_that_comes_back_brings_its_devices_back() -> None:
    roster = opened()
    roster.down("the driver is not loaded", "modprobe", 105.0)
    roster.opened(CARDS, 110.0, 10.0)
    roster.requested(10.0)
    for card, device in zip(CARDS, DEVICES, strict=True):
        roster.described(card.key, [device], 110.0)
        roster.answered(card.key, [ok(device.uuid, 110.0)], 110.0)
    roster.settle(110.0, 10.1, None)
    assert set(states(roster).values()) == {State.OK}
    assert len(roster.entries) == 2


def test_a_device_that_a_new_driver_session_does_not_list_is_lost() -> None:
    roster = opened()
    roster.opened(CARDS[:1], 110.0, 10.0)
    roster.requested(10.0)
    roster.answered(CARDS[0].key, [ok("GPU-a", 110.0)], 110.0)
    roster.settle(110.5, 10.5, None)
    assert shown(roster)["GPU-b"].state is State.OK, "it may yet be described under another key"
    roster.settle(112.0, 12.0, None)
    assert shown(roster)["GPU-b"].state is State.LOST


def test_partitions_that_are_taken_away_are_not_lost() -> None:
    roster = opened()
    instance = Device("MIG-1", 0, "nvidia", "1g.18gb", "0000:01:00.0", parent="GPU-a")
    roster.described(CARDS[0].key, [DEVICES[0], instance], 101.0)
    assert "MIG-1" in states(roster)
    roster.described(CARDS[0].key, [DEVICES[0]], 102.0)
    assert set(states(roster)) == {"GPU-a", "GPU-b"}


def test_a_crashed_reader_gives_its_own_reason_for_the_silence() -> None:
    roster = opened()
    roster.requested(10.0)
    roster.reader_ended("the reader ended: killed by SIGSEGV", "a new one is started")
    roster.settle(111.5, 11.5, None)
    assert shown(roster)["GPU-a"].reason == "the reader ended: killed by SIGSEGV"


def test_everything_is_stale_while_a_driver_does_not_start() -> None:
    roster = Roster("nvidia", 1.0)
    roster.glanced(CARDS, 99.0)
    roster.settle(102.0, 3.0, reader_silent_since=0.0)
    assert set(states(roster).values()) == {State.STALE}


def test_a_failed_reading_is_stale_and_never_idle() -> None:
    roster = opened()
    roster.failed(CARDS[0].key, "reading it failed", "report it", 105.0)
    assert shown(roster)["GPU-a"].state is State.STALE
    assert not shown(roster)["GPU-a"].answered


def test_only_visible_devices_are_marked_visible() -> None:
    statuses = {s.device.uuid: s for s in opened().statuses({"GPU-b": 0})}
    assert (statuses["GPU-b"].visible, statuses["GPU-b"].cuda_index) == (True, 0)
    assert (statuses["GPU-a"].visible, statuses["GPU-a"].cuda_index) == (False, None)


def test_partitions_follow_their_board() -> None:
    roster = opened()
    instances = [
        Device(f"MIG-{n}", 0, "nvidia", "1g", "0000:01:00.0", parent="GPU-a") for n in (2, 1)
    ]
    roster.described(CARDS[0].key, [DEVICES[0], *instances], 101.0)
    ordered = sorted(roster.statuses({}), key=order)
    assert [s.device.uuid for s in ordered] == ["GPU-a", "MIG-2", "MIG-1", "GPU-b"]


def test_a_hung_device_counts_from_when_the_trouble_began_across_reader_restarts() -> None:
    roster = opened()
    roster.requested(10.0)
    roster.settle(111.0, 11.0, None)
    roster.reader_ended("the reader was replaced", "")
    roster.opened(CARDS, 1500.0, 1400.0)  # a new reader, asked a moment ago
    roster.requested(1669.0)
    roster.settle(1671.0, 1671.0, None)
    assert shown(roster)["GPU-b"].reason == "driver call stuck for 26 min"
    assert shown(roster)["GPU-b"].since == 111.0


def test_who_was_on_a_silent_device_is_kept_and_forgotten_when_it_answers() -> None:
    roster = opened()
    held = (Process(7, user="bob", memory_bytes=1), Process(8, user="alice", memory_bytes=9))
    roster.answered(CARDS[1].key, [Reading("GPU-b", Sample(105.0), processes=held)], 105.0)
    assert shown(roster)["GPU-b"].last_users == ()
    roster.lost(CARDS[1].key, "it fell off the bus", "", 110.0)
    assert shown(roster)["GPU-b"].last_users == ("alice", "bob")
    roster.failed(CARDS[1].key, "no response", "", 120.0)
    assert shown(roster)["GPU-b"].last_users == ("alice", "bob"), "another state, the same people"
    roster.answered(CARDS[1].key, [ok("GPU-b", 130.0)], 130.0)
    assert shown(roster)["GPU-b"].last_users == ()


def test_memory_of_a_silent_device_is_not_called_unattributed() -> None:
    roster = opened()
    sample = Sample(105.0, memory_used_bytes=44 << 30)
    roster.answered(CARDS[1].key, [Reading("GPU-b", sample, processes=())], 105.0)
    assert shown(roster)["GPU-b"].memory_unattributed_bytes == 44 << 30
    roster.lost(CARDS[1].key, "it fell off the bus", "", 110.0)
    assert shown(roster)["GPU-b"].memory_unattributed_bytes is None
