"""The contract of every kind of node: each class of tests/contract/test_nodes.py, and the nodes
over HTTP and SSH, subclass it."""

from itertools import islice

import pytest

from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.model.job.device_request import DeviceRequest
from andon.node.port import Node
from andon.runs.rules.matching import RunQuery

NOTHING = "zzzzzzzz"


class NodeContract:
    """Subclass it with a fixture `node` of at least two devices, with an id that no lease, run or
    alert of it has."""

    def test_a_snapshot_has_its_devices_once(self, node: Node) -> None:
        snapshot = node.live.latest()
        uuids = [status.device.uuid for status in snapshot.devices]
        assert len(uuids) == len(set(uuids)) >= 2
        assert [status.device.uuid for status in node.live.read().devices] == uuids
        assert {status.device.uuid for status in node.live.placed().devices} == set(uuids)

    def test_a_session_gives_each_snapshot_once_in_order(self, node: Node) -> None:
        with node.live.subscribe(0.2, watching=True) as session:
            times = [snapshot.at for snapshot in islice(session, 3)]
        assert times == sorted(times)
        assert session.dropped == 0

    def test_what_is_remembered_is_in_order(self, node: Node) -> None:
        times = [snapshot.at for snapshot in node.live.minutes()]
        assert times == sorted(times)

    def test_every_device_has_a_lamp(self, node: Node) -> None:
        snapshot = node.live.latest()
        lit = {lamp.uuid for lamp in node.live.lamps(snapshot)}
        assert lit == {status.device.uuid for status in snapshot.devices}

    def test_alerts_are_those_of_the_node(self, node: Node) -> None:
        page, snapshot = node.alerts.page(), node.live.latest()
        assert (page.node, page.simulated) == (snapshot.node, snapshot.simulated)
        first = next(iter(node.alerts.pages()))
        assert (first.node, first.simulated) == (snapshot.node, snapshot.simulated)
        with pytest.raises(Gone):
            node.alerts.alert(f"thermal@x#{NOTHING}")

    def test_alerts_of_a_device_are_asked_for_by_its_name(self, node: Node) -> None:
        uuid = node.live.latest().devices[0].device.uuid
        assert {a.subject for a in node.alerts.page(None, [uuid]).alerts} <= {uuid}
        with pytest.raises((Gone, Invalid)):
            node.alerts.page(None, ["999"])

    def test_rules_are_listed_and_shown(self, node: Node) -> None:
        names = [rule["name"] for rule in node.alerts.rules()["rules"]]
        assert "thermal" in names
        assert node.alerts.rule("thermal")["name"] == "thermal"
        with pytest.raises(AndonError):
            node.alerts.rule(NOTHING)

    def test_what_is_said_about_alerts_is_kept_or_refused(self, node: Node) -> None:
        if not node.alerts.notifies:
            with pytest.raises(Unavailable):
                node.alerts.check_server()
            with pytest.raises(Unavailable):
                node.alerts.silence({"rule": "fan", "seconds": 60.0, "by": "ada", "note": ""})
            return
        node.alerts.check_server()
        made = node.alerts.silence({"rule": "fan", "seconds": 60.0, "by": "ada", "note": ""}).id
        assert made in {one.id for one in node.alerts.page().silences}
        node.alerts.unsilence(made)
        assert made not in {one.id for one in node.alerts.page().silences}

    def test_every_device_has_a_verdict(self, node: Node) -> None:
        snapshot, listed, _ = node.leases.listing()
        uuids = {status.device.uuid for status in snapshot.devices}
        assert {one.uuid for one in listed.devices} == uuids
        assert {one.uuid for one in node.leases.verdicts(snapshot)} == uuids
        again, shown, _ = node.leases.listing(snapshot=snapshot)
        assert again is snapshot
        assert {one.uuid for one in shown.devices} == uuids

    def test_an_offer_has_a_row_for_each_device_and_reserves_nothing(self, node: Node) -> None:
        offer = node.leases.offer(DeviceRequest(1, 1))
        assert len(offer.rows) == len(node.live.latest().devices)
        assert node.leases.offer(DeviceRequest(1, 1)).available == offer.available

    def test_a_lease_that_does_not_exist_is_gone(self, node: Node) -> None:
        with pytest.raises(Gone):
            node.leases.release(NOTHING, "")
        with pytest.raises(Gone):
            node.leases.extend(NOTHING, 60.0)

    def test_the_past_is_recorded_or_unavailable(self, node: Node) -> None:
        if not node.past.recorded:
            with pytest.raises(Unavailable):
                node.past.devices()
            return
        now = node.live.latest().at
        for device in node.past.devices():
            found = node.past.history(device.uuid, "utilization_percent", now - 60, now, 6)
            assert len(found) == 6
            counts, _ = node.past.throttle_shares(device.uuid, now - 60, now, 6)
            assert len(counts) == 6
        assert all(use.device for use in node.past.usage(None, now - 60, now))

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

    def test_jobs_are_in_the_order_of_the_list(self, node: Node) -> None:
        settled = [view.state.is_settled for view in node.jobs.listing().views]
        assert settled == sorted(settled)

    def test_it_may_be_closed_twice(self, node: Node) -> None:
        node.close()
        node.close()
