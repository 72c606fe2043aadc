"""What a hub shows of a node because it is a node like the server's own, as each may see it."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from andon.access.roles import BLIND, Identity, Role
from andon.cli.terminal import Choices, for_machine
from andon.errors import Conflict, Denied, Gone, Invalid, Unavailable
from andon.explain.conditions.rulebook import Rulebook, thresholds
from andon.fleet.rules.nodes import FleetNode, own_token
from andon.history.rules.notes import MOST_REPORTED, EndedLease, HistoryNote, KnownNotes
from andon.host.processes.facts import exited
from andon.model.device import State
from andon.model.job.desk import JobAct
from andon.model.job.facts import JobState
from andon.model.lease import LeaseState, Share
from andon.model.lease_list import LeaseRow
from andon.model.run.record import RunKind, RunRow, RunState
from andon.node.changes import changes_of
from andon.node.seen.node import SeenNode
from andon.node.watched.runs import FoundRuns
from andon.runs.rules.matching import HIDDEN_NAME, RunQuery
from andon.stores.memory import MemoryRunIndex
from andon.web.app import build
from andon.web.routes import api
from andon.web.routes.nodes import fleet_of
from tests.support.replaced import calls_of
from tests.support.reported_nodes import NAME, RUN, SECRET, ReportingNode
from tests.support.rows import rows
from tests.support.snapshots import farm, uuid
from tests.support.web_parts import BEARER, HOME, Caller, Parts, served

ALERT = "thermal@x"
GIVEN = {
    "/api/devices/{device}/history": "?metric=power_watts",
    "/api/history/changes": "?device=0",
    "/api/run-courses": f"?runs={RUN}",
}
OWNER, READER = Identity(Role.OWNER), Identity(Role.READ)
NOBODY, ADA = Identity(), Identity(Role.USER, 1, "ada")


BELOW = {
    "/api/checks/fleet": "/api/checks/fleet is not about a node",
    "/api/health": "/api/health is not about a node",
    "/api/estimate": "/api/estimate is not about a node",
    "/api/proof": "/api/proof is not about a node",
    "/api/qr": "/api/qr is not about a node",
    "/api/session": "/api/session is not about a node",
    "/api/tokens": "/api/tokens is not about a node",
    "/api/runs/{run}/record": f"the record of {RUN} is on {NAME}",
    "/api/jobs/{job}/log": "the output of a job stays on its node",
}
"""What is not answered below a node, and why: it is the server's own, or never reaches a hub."""


@pytest.fixture
def reporting() -> ReportingNode:
    return ReportingNode()


@rows("who, command", [
    (OWNER, f"python {SECRET}.py"),
    (READER, None),
    (NOBODY, None),
    (ADA, None),
])  # fmt: skip
def test_a_run_whose_record_is_on_the_node_is_shown_by_its_row(
    reporting: ReportingNode, who: Identity, command: str | None
) -> None:
    runs = SeenNode(reporting.node, who).runs
    found = runs.details(RUN)
    assert (found.user, found.duration_seconds, found.node) == ("ada", 60.0, NAME)
    assert (found.command, found.name) == (command, "train")
    assert (found.telemetry, found.downloadable, found.path) == (False, False, None)
    assert found.telemetry_reason == f"the record is on {NAME}: andon runs show {RUN}"
    assert runs.marks(RUN).note == found.telemetry_reason
    with pytest.raises(Unavailable, match=f"is on {NAME}"):
        runs.download(RUN)


def test_an_account_of_the_hubs_machine_is_nobody_in_particular_on_a_node(
    reporting: ReportingNode,
) -> None:
    ada = SeenNode(reporting.node, ADA)
    assert (ada.who, ada.sight) == (NOBODY, BLIND)
    assert [job.command for job in ada.jobs.listing().views] == [HIDDEN_NAME]
    with pytest.raises(Denied):
        ada.jobs.act(JobAct.CANCEL, [7])
    with pytest.raises(Denied):
        ada.alerts.silence({"rule": "fan", "seconds": 60.0, "by": "ada", "note": ""})
    assert SeenNode(reporting.node, READER).who is READER


def test_a_listed_run_of_another_has_no_more_than_a_page_shows(reporting: ReportingNode) -> None:
    own = reporting.runs(NAME)
    (row,) = own.find(RunQuery())
    said = {"message": SECRET, "params": {"lr": SECRET}, "last_values": {SECRET: 1.0}}
    own.put([replace(row, note=SECRET, path=f"/{SECRET}", **said)])
    shown, (listed,) = (SeenNode(reporting.node, who).runs.find(RunQuery()) for who in (OWNER, ADA))
    assert SECRET in str(shown)
    assert SECRET not in str(listed)
    assert listed == SeenNode(reporting.node, ADA).runs.resolve(RUN)


def test_a_node_that_another_hub_added_again_shows_nothing_of_the_earlier_machine(
    reporting: ReportingNode,
) -> None:
    assert reporting.node is reporting.node
    assert reporting.node.jobs_reported()
    reporting.add_again()
    with pytest.raises(Unavailable, match=f"{NAME} has not reported yet"):
        reporting.node.live.latest()


def test_a_number_that_two_users_of_a_node_have_is_a_job_of_who_is_named(
    reporting: ReportingNode,
) -> None:
    node = reporting.node
    (job,) = node.report.jobs
    node.report.__dict__["jobs"] = (job, replace(job, user="bob"))
    for who in (OWNER, NOBODY):
        seen = SeenNode(node, who).jobs
        page = seen.page()
        assert (page.scope, page.whole) == ("node", who is OWNER)
        assert {view.user for view in page.jobs} == {"ada", "bob"}
        with pytest.raises(Conflict, match=f"{NAME} reported a job 7 of ada and one of bob") as no:
            seen.view(7)
        assert no.value.hint == "in the URL: ?user=ada or ?user=bob"
        assert seen.of("bob").view(7).user == "bob"
        assert (seen.of("bob").view(7).command == "hidden") is (who is NOBODY)
        bobs = seen.of("bob").page()
        assert (bobs.user, len(bobs.jobs), bobs.whole) == ("bob", 1, who is OWNER)
        with pytest.raises(Gone):
            seen.of("eve").view(7)
    (outcome,) = SeenNode(node, OWNER).jobs.of("bob").act(JobAct.CANCEL, [7])
    assert outcome.error is not None
    assert outcome.error.reason == "jobs are changed on their node"


def test_the_rules_of_a_node_have_its_own_thresholds_or_none(reporting: ReportingNode) -> None:
    reporting.rulebook = Rulebook(thresholds(thermal_celsius=61.0))
    reporting.report()
    alerts = SeenNode(reporting.node, OWNER).alerts
    (thermal,) = (one for one in alerts.rules()["rules"] if one["name"] == "thermal")
    assert thermal["threshold"] == 61.0
    assert alerts.rule("thermal")["figures"][0]["value"] == 61.0
    reporting.node.report.__dict__["rulebook"] = None
    for asked in (alerts.rules, lambda: alerts.rule("thermal")):
        with pytest.raises(Unavailable, match=f"{NAME} does not say which thresholds it has"):
            asked()


def test_a_run_of_a_node_is_not_followed_and_nothing_is_said_to_be_removed(
    reporting: ReportingNode,
) -> None:
    node = reporting.node
    with pytest.raises(Unavailable, match=f"the record of {RUN} is on {NAME}"):
        node.runs.update(node.runs.resolve(RUN))


def test_leases_of_a_caller_are_those_of_their_account(reporting: ReportingNode) -> None:
    node = reporting.node
    rows = [
        LeaseRow(name, name, None, uid, LeaseState.HELD, None, (), 1.0, 9.0, None, True, 0, None,
                 None, 7, 1, False, None)
        for name, uid in (("ada", 1), ("bob", 2))
    ]  # fmt: skip
    node.report.__dict__["leases"] = replace(node.leases.listed(), leases=tuple(rows))
    node.of_this_machine = True
    for who, names in ((ADA, ["ada"]), (OWNER, [])):
        mine = SeenNode(node, who).leases.listing(mine=True)[1]
        assert [row.id for row in mine.leases] == names


def test_who_holds_a_device_of_the_node_is_in_its_list(reporting: ReportingNode) -> None:
    node = reporting.node
    row = LeaseRow(
        "k7qm2", "alice", "dora", 1, LeaseState.HELD, None, (Share(uuid(0), 0, 1 << 30),), 1.0,
        9.0, "python x.py", True, 0, None, None, 7, 1, False, None,
    )  # fmt: skip
    unread = replace(row, id=None, user="bob", whom=None, devices=(), until=None)
    report = node.report
    report.__dict__["leases"] = replace(node.leases.listed(), leases=(row, unread))
    found, note = node.leases.holders(farm())
    assert note is None
    assert [(one.lease, one.user, one.memory_bytes) for one in found[uuid(0)]] == [
        ("k7qm2", "alice for dora", 1 << 30), (None, "bob", None),
    ]  # fmt: skip
    assert [one.lease for one in found[uuid(1)]] == [None], "it may hold any of them"
    shown = SeenNode(node, READER).leases.listed().leases[0]
    assert (shown.command, shown.fence) == (None, None)


def test_what_changes_a_node_is_refused_by_right_and_then_by_place(
    reporting: ReportingNode,
) -> None:
    owner, reader = (SeenNode(reporting.node, who) for who in (OWNER, READER))
    silence = {"rule": "fan", "seconds": 60.0, "by": "ada", "note": ""}
    for node, error in ((owner, Unavailable), (reader, Denied)):
        with pytest.raises(error):
            node.alerts.silence(silence)
        with pytest.raises(error):
            node.leases.cordon(uuid(0), "x")
    assert isinstance(owner.jobs.act(JobAct.CANCEL, [7])[0].error, Unavailable)
    with pytest.raises(Denied):
        reader.jobs.act(JobAct.CANCEL, [7])
    with pytest.raises(Gone):
        owner.leases.release("nothing", "")
    with pytest.raises(Denied):
        reader.leases.release("nothing", "")


def test_who_uses_the_devices_is_known_before_the_node_sends_its_past(
    reporting: ReportingNode,
) -> None:
    """The pages of a process and of a user have nothing else for a minute after a start."""
    past = SeenNode(reporting.node, OWNER).past
    first = past.usage(uuid(0), 0.0, time.time() + 1)
    assert {(use.user, use.pid) for use in first} == {("alice", 4101), ("bob", 4207)}
    assert {use.last - use.first for use in first} == {0.0}
    reporting.report()
    reporting.node._folded = float("-inf")
    again = past.usage(uuid(0), 0.0, time.time() + 1)
    assert [use.first for use in again] == [use.first for use in first]
    assert all(use.last > use.first for use in again)


def test_devices_of_a_silent_node_are_unknown(reporting: ReportingNode) -> None:
    hub, node = reporting.fleet.hub, reporting.node
    wall, now = hub._clock()
    heard = node.live.minutes_key()
    hub._clock = lambda: (wall, now + 3600.0)
    assert node.live.minutes_key() != heard, "what is kept of its last minutes is made again"
    states = node.live.latest().devices
    assert {one.state for one in states} == {State.UNKNOWN}
    assert (states[0].reason or "").startswith(f"{NAME} is silent: no report for 1 h")
    users = [one.last_users for one in states if one.last_users]
    assert users, "who was on them is known"
    assert node.live.latest().host.cpu_percent is None


def test_the_machine_of_another_hub_is_no_node_to_add_or_remove(reporting: ReportingNode) -> None:
    hub = reporting.fleet.hub
    hub.nodes()["hub-b"] = FleetNode("hub-b", own_token("hub-b"), 1.0)
    for act in (lambda: hub.add("hub-b"), lambda: reporting.fleet.remove("hub-b", True)):
        with pytest.raises(Invalid, match="hub-b is a hub's own machine"):
            act()


def test_jobs_of_a_silent_node_are_as_it_last_reported_them(reporting: ReportingNode) -> None:
    wall, now = reporting.fleet.hub._clock()
    reporting.fleet.hub._clock = lambda: (wall, now + 60.0)
    (note,) = reporting.node.jobs.listing().notes
    assert note == f"{NAME} is silent: no report for 1 min; 1 job when it last reported"
    assert {view.state for view in reporting.node.jobs.listing().views} == {JobState.UNKNOWN}


def test_a_run_of_another_hubs_machine_has_no_record_here() -> None:
    own, every = MemoryRunIndex(), MemoryRunIndex()
    here, there = (
        RunRow(f"{word}zvmtra", word, RunKind.COMMAND, RunState.SUCCEEDED, word, 1.0, f"/{word}")
        for word in ("hub-a", "hub-b")
    )
    own.put([here])
    every.put([here, there])
    found = FoundRuns(own, everywhere=every)
    assert found.named(here.id)[here.id].path == "/hub-a"
    assert found.named(there.id)[there.id].path == ""


def test_processes_of_a_node_are_not_looked_for_on_the_hubs_machine(
    reporting: ReportingNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pid that is free there says nothing of the node's process."""
    asked = calls_of(monkeypatch, api, "departures", lambda _shown, _usage, exited: exited)
    parts = Parts(tmp_path, [farm()])
    app = build(replace(parts.shop, fleet=reporting.fleet), HOME, parts.audit)
    with served(parts) as own:
        for caller, below in ((own, ""), (Caller(app, "127.0.0.1", "localhost"), f"/nodes/{NAME}")):
            found = caller.get(f"/api{below}/devices/{uuid(0)}/why", headers=BEARER)
            assert found.status_code == 200, found.text
    assert asked == [exited, None]


def test_where_the_devices_of_a_node_are_is_said_on_the_node(reporting: ReportingNode) -> None:
    missing = {one.device.place.missing["place"] for one in reporting.node.live.placed().devices}
    assert missing == {f"a hub does not know it; on {NAME}: andon devices --topology"}


@rows("path, words", [
    (f"/api/nodes/{NAME}/leases/a1b2", "release ID"),
    (f"/api/nodes/{NAME}/jobs/7", "cancel ID"),
])  # fmt: skip
def test_what_to_type_on_a_node_does_not_ask_its_hub_again(
    reporting: ReportingNode, tmp_path: Path, path: str, words: str
) -> None:
    parts = Parts(tmp_path, [farm()])
    app = build(replace(parts.shop, fleet=reporting.fleet), HOME, parts.audit)
    with served(parts):
        answer = Caller(app, "127.0.0.1", "localhost").delete(path, headers=BEARER)
    hint = answer.json()["error"]["hint"]
    assert (answer.status_code, hint) == (409, f"on {NAME}: andon {words}")
    assert for_machine(hint, Choices(url="http://hub:1", node_name=NAME)) == hint


@pytest.mark.slow
def test_every_route_of_a_node_is_answered_by_what_a_hub_has(
    reporting: ReportingNode, tmp_path: Path
) -> None:
    parts = Parts(tmp_path, [farm()])
    app = build(replace(parts.shop, fleet=reporting.fleet), HOME, parts.audit)
    names = {"device": uuid(0), "run": RUN, "job": "7", "alert": ALERT, "name": "thermal"}
    refused = {}
    with served(parts) as own:
        caller = Caller(app, "127.0.0.1", "localhost")
        for path, methods in own.get("/openapi.json", headers=BEARER).json()["paths"].items():
            if "get" not in methods or not path.startswith("/api/") or "/nodes" in path:
                continue
            asked = f"/api/nodes/{NAME}{path[4:].format(**names)}{GIVEN.get(path, '')}"
            answer = caller.get(asked, headers=BEARER)
            if answer.status_code != 200:
                refused[path] = answer.json()["error"]["reason"]
    assert refused == {**BELOW, "/api/alerts/{alert}": f"there is no alert {ALERT!r}"}


def test_notes_and_leases_that_ended_are_those_of_the_last_report(reporting: ReportingNode) -> None:
    """A node of an earlier andon reports none: then it is said where they are."""
    now = time.time()
    note = HistoryNote("n1", now, now - 90, now - 80, "new fan", uuid(0), "ada")
    over = EndedLease("bob", (uuid(0),), now - 200, now - 85)
    reporting.noted = KnownNotes((note,), leases=(over,) * (MOST_REPORTED + 1))
    reporting.report()
    reporting.node.refresh()
    seen = SeenNode(reporting.node, NOBODY)
    assert seen.past.notes(uuid(0), now - 100, now) == (note,)
    assert len(seen.past.ended_leases(uuid(0), now - 100, now)) == MOST_REPORTED
    found = changes_of(seen, uuid(0), now - 100, now)
    assert [one.text for one in found.changes if one.kind in ("note", "lease")] == [
        "note of ada: new fan", "a lease of bob ended after 1 min 55 s",
    ]  # fmt: skip
    assert not [one for one in found.unknown if "note" in one or "lease" in one]
    reporting.noted = None
    reporting.report()
    reporting.node.refresh()
    with pytest.raises(Gone, match="notes are kept on the node itself"):
        seen.past.notes(None, 0, now)
    with pytest.raises(Denied):
        SeenNode(reporting.node, READER).past.add_note(note)
    unknown = changes_of(seen, uuid(0), now - 100, now).unknown
    assert {"notes: notes are kept on the node itself",
            "leases: notes are kept on the node itself"} <= set(unknown)  # fmt: skip


def test_a_server_that_is_no_hub_refuses_each_request_with_an_error_of_its_own() -> None:
    """One that is raised again keeps the frames of every request before."""
    parts: Any = SimpleNamespace(fleet=None)
    refused = []
    for _ in range(2):
        with pytest.raises(Gone, match="is not a hub") as found:
            fleet_of(parts)
        refused.append(found.value)
    assert refused[0] is not refused[1]
