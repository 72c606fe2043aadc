"""Whom an Xid concerns: those who ran when it happened, also where they are gone by now."""

from andon.alerts.rules.commands import current
from andon.alerts.rules.state import EMPTY
from andon.alerts.rules.state_machine import step
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.model.event import Event, EventKind, Party
from tests.support.snapshots import AT, farm, uuid


def test_the_process_that_died_of_it_is_named() -> None:
    culprit = Party(77, "mallory", "python", "python broken.py")
    event = Event(EventKind.XID, uuid(1), AT, 31, "MMU Fault", "kernel log", (77,), (culprit,))
    outcome = step(EMPTY, Observation(farm(), (event,)), Moment(AT, 1.0), Rulebook())
    (alert,) = [a for a in current(outcome.state) if a.rule == "xid"]
    assert alert.affected == (culprit,)
    assert not any(p.pid == 77 for status in farm().devices for p in status.processes)


def test_a_report_without_a_name_concerns_those_who_are_on_the_device() -> None:
    event = Event(EventKind.XID, uuid(0), AT, 31)
    outcome = step(EMPTY, Observation(farm(), (event,)), Moment(AT, 1.0), Rulebook())
    (alert,) = [a for a in current(outcome.state) if a.rule == "xid"]
    assert {party.pid for party in alert.affected} == {p.pid for p in farm().devices[0].processes}


def test_a_reset_by_the_driver_is_a_warning_and_one_that_failed_is_critical() -> None:
    begun = Event(EventKind.RESET, uuid(1), AT, None, "GPU reset begin!", "kernel log")
    failed = Event(EventKind.RESET, uuid(2), AT, 22, "GPU reset end with ret = -22", "kernel log")
    seen = Observation(farm(), (begun, failed))
    outcome = step(EMPTY, seen, Moment(AT, 1.0), Rulebook())
    told = {a.device: a for a in current(outcome.state) if a.rule == "xid"}
    assert (told[1].level, told[2].level) == ("warning", "critical")
    assert told[1].message == (
        "GPU 1 reports an error: it hung and the driver is resetting it; what ran on it is lost"
    )
    assert "reboot" in told[2].advice
