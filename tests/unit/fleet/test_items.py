"""What all nodes have, a line for each thing: found, in order, and no more than is asked for."""

import time

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.fleet.rules.items import SORTS, FleetItem, ItemKind, Wanted, items_of, page_of
from tests.support.played_fleet import GPUS, PlayedNode
from tests.support.snapshots import mig_board

NOW = time.time()


def lines(number: int) -> tuple[FleetItem, ...]:
    one = PlayedNode(number, NOW)
    return items_of(one.snapshot, one.alerts, one.silences, one.leases, one.jobs, (one.ended,))


ALL = [item for number in range(120) for item in lines(number)]


def found(search: str = "", kind: str = "", **wanted: object) -> tuple[FleetItem, ...]:
    kinds = frozenset([ItemKind(kind)] if kind else [])
    asked = Wanted(kinds, search, **{"limit": 500, **wanted})  # type: ignore[arg-type]
    return page_of(ALL, asked, NOW, (), ()).items


def test_a_number_stands_for_itself() -> None:
    assert {one.node for one in found("n17")} == {"n17"}
    assert {one.node for one in found("N03 gpu 5 bus")} == {"n03"}
    assert found("n03 gpu 9") == ()
    assert {one.node for one in found("thermal silenced carol fan", "alert")} == {"n57", "n107"}


def test_a_silence_without_an_alert_is_a_line_of_its_own() -> None:
    one = PlayedNode(57, NOW)
    (silence,) = one.silences
    other = replace(silence, id="s2", subject=one.devices[4].device.uuid)
    kinds = ItemKind.SILENCE
    found = items_of(one.snapshot, one.alerts, (silence, other), None, ())
    (line,) = [each for each in found if each.kind is kinds]
    assert (line.id, line.title) == ("s2", "thermal of GPU 4 is silenced")
    assert items_of(one.snapshot, (), (replace(other, rule=None, subject=None),), None, ())[
        0
    ].title.startswith("every alert is silenced")


def test_what_needs_someone_comes_first() -> None:
    alerts = [one.state for one in found(kind="alert")]
    assert alerts == sorted(alerts, key=["critical", "warning", "silenced", "info"].index)
    jobs = [one.state for one in found(kind="job")]
    assert jobs == sorted(jobs, reverse=True), "waiting ones, then running ones"
    assert {one.state for one in found(kind="lease")[:10]} == {"idle"}


def test_a_process_on_several_devices_is_one_line() -> None:
    _, *parts = mig_board(3)
    process = parts[0].processes[0]
    node = PlayedNode(0, NOW)
    both = [replace(one, processes=(process,)) for one in node.devices[:2]]
    (one,) = items_of(replace(node.snapshot, devices=tuple(both)), (), (), None, ())
    assert one.gpus == ("0", "1")
    assert one.memory_bytes == 2 * (process.memory_bytes or 0)
    unknown = [replace(each, processes=(replace(process, memory_bytes=None),)) for each in both]
    (one,) = items_of(replace(node.snapshot, devices=tuple(unknown)), (), (), None, ())
    assert one.memory_bytes is None, "unknown is not 0"


def test_places_in_a_queue_cordons_and_ended_alerts_are_lines_of_their_own() -> None:
    waiting, cordons = found(kind="waiting"), found(kind="cordon")
    assert (waiting[0].title, waiting[0].wants, waiting[0].user) == ("place 1", "2", "alice")
    assert {(one.node, one.gpus, one.title) for one in cordons} == {
        (node, ("7",), "a new fan on Monday") for node in ("n04", "n54", "n104")
    }
    ended = found(kind="ended")
    assert [one.node for one in ended[:2]] == ["n00", "n01"], "the latest first"
    assert {one.state for one in ended} == {"resolved"}
    assert "resolved" not in {one.state for one in found(kind="alert")}


def test_each_kind_is_counted_whichever_is_chosen() -> None:
    for kind in ("lease", "waiting", "cordon"):
        asked = Wanted(frozenset([ItemKind(kind)]), node="n04", limit=500)
        page = page_of(ALL, asked, NOW, (), ())
        assert page.total == page.counts[kind] == len(page.items)
        assert page.counts["cordon"] == 1


def test_a_cordoned_device_that_is_gone_has_its_uuid() -> None:
    one = PlayedNode(4, NOW)
    (cordon,) = one.leases.cordons
    gone = replace(one.leases, cordons=(replace(cordon, uuid="GPU-gone", index=None),))
    (line,) = (
        each for each in items_of(one.snapshot, (), (), gone, ()) if each.kind is ItemKind.CORDON
    )
    assert line.gpus == ("GPU-gone",)


@given(
    st.sampled_from(sorted(SORTS)), st.booleans(), st.sampled_from(["", "alice", "n1", "python"]),
    st.sampled_from(["", "bob"]), st.integers(1, 90),
)  # fmt: skip
def test_pages_together_are_everything_once(
    sort: str, down: bool, search: str, user: str, limit: int
) -> None:
    order = f"-{sort}" if down else sort
    asked = Wanted(search=search, user=user, sort=order, limit=limit)
    first = page_of(ALL, asked, NOW, (), ())
    assert len(first.items) == min(limit, first.total)
    gathered = list(first.items)
    for offset in range(limit, first.total, limit):
        gathered += page_of(ALL, replace(asked, offset=offset), NOW, (), ()).items
    assert len(gathered) == first.total == len({(o.kind, o.node, o.id) for o in gathered})
    assert all(user in ("", one.user) for one in gathered)


def test_users_are_counted_before_one_is_chosen() -> None:
    page = page_of(ALL, Wanted(user="bob"), NOW, (), ())
    users = {"alice", "bob", "carol", "dora", "erik", "root"}
    assert {one.user for one in page.users} == users
    assert sum(one.count for one in page.users if one.user == "bob") == page.total


def test_a_node_that_reports_everything_has_a_line_for_each() -> None:
    one = PlayedNode(1, NOW)
    kinds = [item.kind for item in lines(1)]
    assert kinds.count(ItemKind.PROCESS) == GPUS - one.free
    assert kinds.count(ItemKind.LEASE) == len(one.users)
    assert kinds.count(ItemKind.JOB) == len(one.jobs)
