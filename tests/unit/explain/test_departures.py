"""Who was on a GPU before is looked up where memory is left, and "exited" only where it is true."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from andon.errors import Unavailable
from andon.explain.evidence.departures import NOTHING_KNOWN, departures
from andon.history.rules.intervals import UsageInterval
from andon.host.processes.facts import ProcessTable, exited
from andon.model.device import Process, Snapshot
from tests.support.snapshots import AT, h200, work

NO_PID = 4_194_304  # above the highest that Linux gives


def myself() -> Process:
    (found,) = ProcessTable().attribute([Process(os.getpid())])
    assert found.started is not None
    return found


def test_a_process_has_exited_if_its_pid_is_free_or_another_has_it() -> None:
    me = myself()
    earlier = replace(me, started=(me.started or 0.0) - 3600)
    assert exited([me]) == frozenset()
    assert exited([earlier]) == {(me.pid, earlier.started)}
    assert exited([Process(NO_PID, started=AT)]) == {(NO_PID, AT)}
    assert exited([Process(NO_PID)]) == frozenset(), "which process it was is not known"


def test_a_process_that_cannot_be_read_may_run(tmp_path: Path) -> None:
    """Under hidepid the processes of others are there and cannot be read."""
    assert exited([Process(os.getpid(), started=AT)], tmp_path) == frozenset()


def left_behind(*before: Process) -> list[Snapshot]:
    earlier = replace(h200(0, 40.0), processes=before)
    return [Snapshot("n", AT - 9, devices=(earlier,)), Snapshot("n", AT, devices=(h200(0, 40.0),))]


def test_the_history_is_asked_only_where_memory_is_left() -> None:
    asked = []

    def usage(uuid: str, since: float, until: float) -> Sequence[UsageInterval]:
        asked.append(uuid)
        return [UsageInterval(uuid, NO_PID, AT - 60, "alice", "train.py", AT - 60, AT - 30, 1)]

    calm = [Snapshot("n", AT, devices=(h200(0),))]
    assert departures(calm, usage, exited) is NOTHING_KNOWN
    assert asked == []
    found = departures(left_behind(), usage, exited)
    assert asked == [h200(0).device.uuid]
    assert [use.user for use in found.uses[asked[0]]] == ["alice"]
    assert found.exited == {(NO_PID, AT - 60)}


def test_whether_processes_of_another_machine_run_is_not_known() -> None:
    past = left_behind(replace(work(NO_PID, "bob", "x", 40.0), started=AT - 99))
    assert departures(past, None, None) == NOTHING_KNOWN
    assert departures(past, None, exited).exited == {(NO_PID, AT - 99)}


def test_without_a_history_the_snapshots_have_to_do() -> None:
    def off(uuid: str, since: float, until: float) -> Sequence[UsageInterval]:
        raise Unavailable("no history is kept")

    assert departures(left_behind(), off, exited).uses == {h200(0).device.uuid: ()}
