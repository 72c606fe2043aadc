"""The contract of every kind of node: each class of tests/contract/test_nodes.py, and the nodes
over HTTP and SSH, subclass it.

It asks a Node and nothing else; a test needs only the node, so that `failures` runs them all where
there is no pytest."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from itertools import islice
from typing import ClassVar, TypeVar

import pytest

from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.model.job.desk import JobAct
from andon.model.job.device_request import DeviceRequest
from andon.node.port import Node
from andon.runs.rules.matching import RunQuery

NOTHING = "zzzzzzzz"
NO_JOB = 9_999_999
MOST_BYTES = 65_536
HIDDEN = "hidden"
"""In place of the command of a job."""
T = TypeVar("T")
Check = Callable[["NodeContract", Node], None]


FIRST_QUESTIONS: Mapping[str, Callable[[Node], object]] = {
    "live": lambda node: node.live.latest(),
    "alerts": lambda node: node.alerts.page(),
    "leases": lambda node: node.leases.listing(),
    "past": lambda node: node.past.devices(),
    "runs": lambda node: node.runs.find(RunQuery()),
    "jobs": lambda node: node.jobs.listing(),
}


def refused(call: Callable[[], object]) -> AndonError:
    """What a node says of what it cannot do: one sentence, with what to do instead."""
    with pytest.raises(AndonError) as found:
        call()
    assert found.value.reason
    assert "\n" not in found.value.reason
    assert found.value.hint, found.value.reason
    return found.value


def done(call: Callable[[], T]) -> T | None:
    """What a node returns of something that it may be unable to do; then it says why."""
    try:
        return call()
    except AndonError as error:
        hint = error.hint
    assert hint
    return None


def asks(*ports: str) -> Callable[[Check], Check]:
    """Of a node without one of the ports that a test asks, it is tested that this is refused."""

    def decorated(test: Check) -> Check:
        @wraps(test)
        def checked(self: "NodeContract", node: Node) -> None:
            for port in self.without.intersection(ports):
                refused(lambda: FIRST_QUESTIONS[port](node))  # noqa: B023
            if not self.without.intersection(ports):
                test(self, node)

        return checked

    return decorated


class NodeContract:
    """Subclass it with a fixture `node` of at least two devices, with an id that no lease, run or
    alert of it has."""

    acts: ClassVar[bool] = True
    """Whether this caller may change something, where a server keeps it."""
    without: ClassVar[frozenset[str]] = frozenset()
    """The ports that this node does not have."""
    blind: ClassVar[bool] = False
    """Whether this caller may see no command line."""

    def lease(self, node: Node) -> str | None:
        """A new lease that this caller may change, if the node can have one."""
        return None

    @asks("live")
    def test_a_snapshot_has_its_devices_once(self, node: Node) -> None:
        snapshot = node.live.latest()
        uuids = [status.device.uuid for status in snapshot.devices]
        assert len(uuids) == len(set(uuids)) >= 2
        assert [status.device.uuid for status in node.live.read().devices] == uuids
        assert {status.device.uuid for status in node.live.placed().devices} == set(uuids)

    @asks("live")
    def test_a_session_gives_each_snapshot_once_in_order(self, node: Node) -> None:
        with node.live.subscribe(0.2, watching=True) as session:
            times = [snapshot.at for snapshot in islice(session, 3)]
        assert times == sorted(times)
        assert session.dropped == 0

    @asks("live")
    def test_what_is_remembered_is_in_order(self, node: Node) -> None:
        times = [snapshot.at for snapshot in node.live.minutes()]
        assert times == sorted(times)

    @asks("live")
    def test_every_device_has_a_lamp(self, node: Node) -> None:
        snapshot = node.live.latest()
        lit = {lamp.uuid for lamp in node.live.lamps(snapshot)}
        assert lit == {status.device.uuid for status in snapshot.devices}

    @asks("alerts", "live")
    def test_alerts_are_those_of_the_node(self, node: Node) -> None:
        page, snapshot = node.alerts.page(), node.live.latest()
        assert (page.node, page.simulated) == (snapshot.node, snapshot.simulated)
        first = next(iter(node.alerts.pages()))
        assert (first.node, first.simulated) == (snapshot.node, snapshot.simulated)
        with pytest.raises(Gone):
            node.alerts.alert(f"thermal@x#{NOTHING}")

    @asks("alerts", "live")
    def test_alerts_of_a_device_are_asked_for_by_its_name(self, node: Node) -> None:
        uuid = node.live.latest().devices[0].device.uuid
        assert {a.subject for a in node.alerts.page(None, [uuid]).alerts} <= {uuid}
        with pytest.raises((Gone, Invalid)):
            node.alerts.page(None, ["999"])

    @asks("alerts")
    def test_rules_are_listed_and_shown(self, node: Node) -> None:
        names = [rule["name"] for rule in node.alerts.rules()["rules"]]
        assert "thermal" in names
        assert node.alerts.rule("thermal")["name"] == "thermal"
        with pytest.raises(AndonError):
            node.alerts.rule(NOTHING)

    @asks("alerts")
    def test_what_is_said_about_alerts_is_kept_or_refused(self, node: Node) -> None:
        if not node.alerts.notifies:
            with pytest.raises(Unavailable):
                node.alerts.check_server()
            with pytest.raises(Unavailable):
                node.alerts.silence({"rule": "fan", "seconds": 60.0, "by": "ada", "note": ""})
            return
        node.alerts.check_server()
        if not self.acts:
            refused(lambda: node.alerts.silence({"rule": "fan", "seconds": 60.0, "by": "ada"}))
            assert not node.alerts.page().silences
            return
        made = node.alerts.silence({"rule": "fan", "seconds": 60.0, "by": "ada", "note": ""}).id
        assert made in {one.id for one in node.alerts.page().silences}
        node.alerts.unsilence(made)
        assert made not in {one.id for one in node.alerts.page().silences}

    @asks("alerts")
    def test_an_alert_is_acknowledged_and_not_any_more_or_it_is_refused(self, node: Node) -> None:
        for name in [one.id for one in node.alerts.page().alerts if one.resolved is None][:1]:
            if not (self.acts and node.alerts.notifies):
                refused(lambda: node.alerts.acknowledge(name, "ada", "seen"))  # noqa: B023
                refused(lambda: node.alerts.unacknowledge(name))  # noqa: B023
                continue
            seen = node.alerts.acknowledge(name, "ada", "seen").acknowledged
            assert seen is not None
            assert (bool(seen.by), seen.note) == (True, "seen")
            assert node.alerts.alert(name).acknowledged == seen
            assert node.alerts.unacknowledge(name).acknowledged is None
        refused(lambda: node.alerts.acknowledge(f"thermal@x#{NOTHING}", "ada", ""))

    @asks("alerts")
    def test_notifiers_are_tested_or_it_is_refused(self, node: Node) -> None:
        said = done(lambda: node.alerts.test(None))
        assert said is None or said["results"] or said["note"]

    @asks("leases")
    def test_every_device_has_a_verdict(self, node: Node) -> None:
        snapshot, listed, _ = node.leases.listing()
        uuids = {status.device.uuid for status in snapshot.devices}
        assert {one.uuid for one in listed.devices} == uuids
        assert {one.uuid for one in node.leases.verdicts(snapshot)} == uuids
        again, shown, _ = node.leases.listing(snapshot=snapshot)
        assert again is snapshot
        assert {one.uuid for one in shown.devices} == uuids

    @asks("leases", "live")
    def test_an_offer_has_a_row_for_each_device_and_takes_nothing(self, node: Node) -> None:
        offer = node.leases.offer(DeviceRequest(1, 1))
        assert len(offer.rows) == len(node.live.latest().devices)
        assert node.leases.offer(DeviceRequest(1, 1)).available == offer.available

    @asks("leases")
    def test_a_lease_that_does_not_exist_is_gone(self, node: Node) -> None:
        with pytest.raises(Gone):
            node.leases.release(NOTHING, "")
        with pytest.raises(Gone):
            node.leases.extend(NOTHING, 60.0)

    @asks("leases")
    def test_a_lease_is_extended_and_released(self, node: Node) -> None:
        if (name := self.lease(node)) is None:
            return
        before = {one.id: one.until for one in node.leases.listing()[1].leases}
        found, until = node.leases.extend(name, 4000.0)
        assert found == name
        assert until > (before[name] or 0.0)
        assert node.leases.release(name, "enough") == name
        left = {one.id for one in node.leases.listing()[1].leases}
        assert name not in left
        assert left == before.keys() - {name}
        refused(lambda: node.leases.release(name, ""))

    @asks("past", "live")
    def test_the_past_is_recorded_or_unavailable(self, node: Node) -> None:
        if not node.past.recorded:
            with pytest.raises(Unavailable):
                node.past.devices()
            for call in (
                lambda: node.past.usage(None, 1.0, 2.0),
                lambda: node.past.history("x", "utilization_percent", 1.0, 2.0, 6),
                lambda: node.past.throttle_shares("x", 1.0, 2.0, 6),
            ):
                refused(call)
            return
        now = node.live.latest().at
        for device in node.past.devices():
            found = node.past.history(device.uuid, "utilization_percent", now - 60, now, 6)
            assert len(found) == 6
            counts, _ = node.past.throttle_shares(device.uuid, now - 60, now, 6)
            assert len(counts) == 6
        assert all(use.device for use in node.past.usage(None, now - 60, now))

    @asks("past", "live")
    def test_usage_is_of_the_device_and_the_time_that_were_asked_for(self, node: Node) -> None:
        if not node.past.recorded:
            return
        until = node.live.latest().at
        since = until - 86_400
        of_all = list(node.past.usage(None, since, until))
        for use in of_all:
            assert since <= use.last
            assert use.first <= until
        for device in {use.device for use in of_all}:
            own = list(node.past.usage(device, since, until))
            assert {use.device for use in own} == {device}

    @asks("runs")
    def test_runs_are_listed_found_and_named(self, node: Node) -> None:
        found = node.runs.listed(RunQuery(limit=5))
        assert len(found.rows) <= min(5, found.total)
        assert [row.id for row in node.runs.find(RunQuery(limit=5))] == [r.id for r in found.rows]
        for row in found.rows:
            assert node.runs.is_id(row.id)
            assert node.runs.resolve(row.id).id == row.id
        assert not node.runs.is_id(NOTHING)
        with pytest.raises(Gone):
            node.runs.resolve(NOTHING)

    @asks("runs")
    def test_the_record_of_a_run_begins_with_it_or_is_refused(self, node: Node) -> None:
        for row in node.runs.listed(RunQuery(limit=2)).rows:
            if (path := done(lambda: node.runs.record(row))) is not None:  # noqa: B023
                with path.open(encoding="utf-8") as file:
                    assert json.loads(file.readline())["id"] == row.id

    @asks("jobs")
    def test_jobs_are_in_the_order_of_the_list(self, node: Node) -> None:
        views = node.jobs.listing().views
        settled = [view.state.is_settled for view in views]
        assert settled == sorted(settled)
        words = [view.label if view.engine else view.number for view in views]
        # On a server of root two users may each have a job 1: a number means one's own.
        labels = list(dict.fromkeys(view.label for view in views))
        assert [view.label for view in node.jobs.find(words).views] == labels
        found, errors = node.jobs.find([NO_JOB])
        assert (list(found), len(errors)) == ([], 1)

    @asks("jobs")
    def test_a_job_has_reasons_and_a_log_or_it_is_refused(self, node: Node) -> None:
        for view in node.jobs.listing().views[:20]:
            name = view.label if view.engine else view.number
            reasons = done(lambda: node.jobs.reasons(name))  # noqa: B023
            assert reasons is None or all(one.text for one in reasons)
            part = done(lambda: node.jobs.log(name, None, MOST_BYTES))  # noqa: B023
            if part is not None:
                assert part.start <= part.end
                assert len(part.text.encode()) <= MOST_BYTES
        refused(lambda: node.jobs.log(NO_JOB, None, MOST_BYTES))
        refused(lambda: node.jobs.reasons(NO_JOB))

    @asks("jobs")
    def test_what_is_done_to_a_job_that_is_not_there_is_refused(self, node: Node) -> None:
        for act in (JobAct.CANCEL, JobAct.HOLD, JobAct.RETRY):
            outcome = done(lambda: node.jobs.act(act, [NO_JOB]))  # noqa: B023
            assert outcome is None or [one.error is not None for one in outcome] == [True]

    def test_what_does_not_exist_is_gone_in_one_sentence_everywhere(self, node: Node) -> None:
        alert = f"thermal@x#{NOTHING}"
        calls: list[tuple[str, str, Callable[[], object]]] = [
            ("alerts", "no device '999'", lambda: node.alerts.page(None, ["999"])),
            ("alerts", f"no alert {alert!r}", lambda: node.alerts.alert(alert)),
            ("alerts", f"no rule '{NOTHING}'", lambda: node.alerts.rule(NOTHING)),
            ("leases", f"no lease '{NOTHING}'", lambda: node.leases.release(NOTHING, "")),
            ("runs", f"no run '{NOTHING}'", lambda: node.runs.resolve(NOTHING)),
            ("jobs", f"no job {NO_JOB}", lambda: node.jobs.view(NO_JOB)),
        ]
        for port, sentence, call in calls:
            if port in self.without:
                continue
            with pytest.raises(Gone) as found:
                call()
            assert sentence in found.value.reason, found.value.reason

    # What a caller sees.

    def test_a_caller_without_rights_sees_no_command_line(self, node: Node) -> None:
        if self.blind:
            assert list(_commands(node)) == []

    def test_it_may_be_closed_twice(self, node: Node) -> None:
        node.close()
        node.close()


def _commands(node: Node) -> Iterator[str | None]:
    """Every command line that this node shows."""
    with node.live.subscribe(0.2) as session:
        snapshots = [
            node.live.latest(),
            node.live.read(),
            *node.live.minutes(),
            next(iter(session)),
        ]
    processes = [one for now in snapshots for status in now.devices for one in status.processes]
    parties = [one for alert in node.alerts.page(0.0).alerts for one in alert.affected]
    shown = [one.command for one in processes] + [one.command for one in parties]
    shown += [one.command for one in node.runs.find(RunQuery(limit=50))]
    shown += [view.command for view in node.jobs.listing().views]
    shown += [one.command for one in node.leases.listing()[1].leases]
    yield from (command for command in shown if command not in (None, HIDDEN))


def failures(contract: type[NodeContract], node: Node) -> dict[str, str]:
    """Runs every test of a filling, where there is no pytest; why each fails."""
    found = {}
    for name in sorted(name for name in dir(contract) if name.startswith("test_")):
        if name.endswith("closed_twice"):
            continue
        try:
            getattr(contract(), name)(node)
        except (AssertionError, AndonError, pytest.fail.Exception) as error:
            found[name] = f"{type(error).__name__}: {error}"
    node.close()
    node.close()
    return found
