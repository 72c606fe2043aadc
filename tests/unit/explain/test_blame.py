"""Who is blamed: decided once, by share, else memory; equals together."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.alerts.rules.alerts_from_sample import alerts_from_sample, board_from_sample
from andon.alerts.rules.commands import current
from andon.alerts.rules.state import EMPTY
from andon.alerts.rules.state_machine import step
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.blame import blamed
from andon.explain.evidence.observation import Moment, Observation
from andon.explain.why import explain
from andon.model.device import DeviceStatus, Process, ProcessKind, Snapshot, State
from andon.units import GIB
from tests.support.rows import rows
from tests.support.snapshots import AT, h200


def process(pid: int, user: str | None = "dora", **more: object) -> Process:
    return replace(Process(pid, user=user, name="python"), **more)


@rows(
    ("processes", "words"),
    [
        ([], None),
        ([process(1)], "dora's python"),
        ([process(1, command="python /a/train.py --lr 1")], "dora's train.py"),
        ([process(1, None)], "python"),
        ([Process(7)], "process 7"),
        ([process(1, utilization_percent=10), process(2, "bob", utilization_percent=90)],
         "bob's python"),
        ([process(1, memory_bytes=GIB), process(2, "bob", memory_bytes=9 * GIB)], "bob's python"),
        # A share beats any size.
        ([process(1, memory_bytes=9 * GIB, utilization_percent=0),
          process(2, "bob", memory_bytes=GIB, utilization_percent=30)], "bob's python"),
        ([process(n, user, utilization_percent=14)
          for n, user in enumerate(["dora", "dora", "caroline", "bob", "bob", "dora", "bob"])],
         "7 processes of dora, caroline and bob"),
        # The noise of a reading is no difference.
        ([process(1, utilization_percent=48), process(2, "bob", utilization_percent=50)],
         "2 processes of bob and dora"),
        ([process(1), process(2, "bob")], "2 processes of dora and bob"),
        ([process(1), process(2, None)], "2 processes of dora and others"),
        ([process(1, None), process(2, None)], "2 processes"),
        ([process(n, f"u{n}") for n in range(5)], "5 processes of u0, u1, u2 and 2 more"),
        # A desktop is blamed only where nothing computes.
        ([process(1, "x", kind=ProcessKind.GRAPHICS), process(2, "bob")], "bob's python"),
    ],
)  # fmt: skip
def test_it_is_told_in_words(processes: list[Process], words: str | None) -> None:
    found = blamed(processes)
    assert (None if found is None else found.text) == words


PROCESSES = st.lists(
    st.builds(
        Process,
        pid=st.integers(1, 99),
        kind=st.sampled_from(ProcessKind),
        user=st.none() | st.sampled_from(["dora", "caroline", "bob"]),
        memory_bytes=st.none() | st.integers(0, 9) | st.just(GIB),
        utilization_percent=st.none() | st.integers(0, 100),
    ),
    max_size=7,
    unique_by=lambda one: one.pid,
)


@given(PROCESSES)
def test_it_does_not_depend_on_the_order_and_never_blames_one_for_less(
    processes: list[Process],
) -> None:
    found = blamed(processes)
    assert blamed(list(reversed(processes))) == found
    assert (found is None) == (not processes)
    if found is not None:
        most = max((p.utilization_percent or 0) for p in processes)
        assert not most or all((p.utilization_percent or 0) >= 0.9 * most for p in found.processes)


def crowded() -> DeviceStatus:
    """One hot GPU, seven equal processes of three users."""
    users = ["dora", "caroline", "bob", "dora", "caroline", "bob", "dora"]
    sizes = [2, 1.5, 2, 2, 2, 2, 2]
    crowd = tuple(
        process(40 + n, user, memory_bytes=int(size * GIB), utilization_percent=14)
        for n, (user, size) in enumerate(zip(users, sizes, strict=True))
    )
    status = h200(0, 14, temperature_celsius=91, utilization_percent=98)
    return replace(status, processes=crowd)


def test_why_alerts_and_the_headline_blame_the_same() -> None:
    """`why` named caroline, the alert and the board dora."""
    seen = Snapshot("n", AT, devices=(crowded(),))
    told = "7 processes of dora, bob and caroline"
    reason = explain([seen], crowded().device.uuid)[0]
    assert (reason.process, reason.blamed) == (None, told)
    lit = board_from_sample(seen, Rulebook())
    assert told in lit.headline
    assert lit.devices[0].affected_user == "dora, bob and caroline"
    (hot,) = [alert for alert in alerts_from_sample(seen, Rulebook()) if alert.rule == "thermal"]
    assert {party.user for party in hot.affected} == {"dora", "bob", "caroline"}


def test_people_who_have_left_are_no_longer_affected() -> None:
    """An alert that had not cleared yet listed a process that was gone."""
    hot = replace(h200(0, 3, temperature_celsius=91), processes=(process(7, "root"),))
    state = EMPTY
    for second in range(90):
        seen = Observation(Snapshot("n", AT + second, devices=(hot,)))
        moment = Moment(AT + second, 1000.0 + second)
        state = step(state, seen, moment, Rulebook()).state
    (alert,) = [one for one in current(state) if one.rule == "thermal"]
    assert [party.user for party in alert.affected] == ["root"]
    cool = replace(h200(0, 0, temperature_celsius=40), processes=())
    seen = Observation(Snapshot("n", AT + 90, devices=(cool,)))
    state = step(state, seen, Moment(AT + 90, 1090.0), Rulebook()).state
    (alert,) = [one for one in current(state) if one.rule == "thermal"]
    assert alert.affected == ()
    assert alert.message == "GPU 0 was too hot (91 °C); now 40 °C, clears in 2 min"
    assert alert.clears_in_seconds == 120.0


def test_a_device_that_stopped_answering_keeps_its_people() -> None:
    """Who is on it is not known any more, which is not nobody."""
    hot = replace(h200(0, 3, temperature_celsius=91), processes=(process(7, "root"),))
    first = Observation(Snapshot("n", AT, devices=(hot,)))
    state = step(EMPTY, first, Moment(AT, 1.0), Rulebook()).state
    silent = replace(hot, state=State.STALE, since=AT, processes=())
    later = Observation(Snapshot("n", AT + 1, devices=(silent,)))
    state = step(state, later, Moment(AT + 1, 2.0), Rulebook()).state
    affected = {one.rule: [p.user for p in one.affected] for one in current(state)}
    assert affected["thermal"] == affected["driver_hung"] == ["root"]
