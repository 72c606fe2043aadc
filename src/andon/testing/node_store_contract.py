"""The contracts of every store of a hub's nodes, as pytest suites for other packages, too."""

from typing import Protocol

import pytest
from msgspec.structs import replace

from andon.errors import Conflict
from andon.fleet.rules.nodes import FleetNode, Heartbeat, NamedToken
from andon.history.rules.codec import SeriesRow, pack_rows
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.tiers import Tier, window
from andon.model.device import Device
from andon.model.run.record import RunKind, RunRow, RunState
from andon.ports import NodePasts, NodeStore
from andon.runs.rules.matching import RunQuery

AT = 1_794_000_000.0
ONE = FleetNode("n1", "hash-1", AT)
TWO = FleetNode("n2", "hash-2", AT + 1)
OTHER = "hash-3"
BEGIN, HOUR_SECONDS = window(Tier.MINUTE, int(AT * 1000)), 3600


def minutes_of(value: int) -> bytes:
    """Returns a block of minutes that all have this value."""
    return pack_rows([SeriesRow(60_000 * one, 30, value, value, 30 * value) for one in range(120)])


def beat(sequence: int, node: str = "n1", session: str = "a") -> Heartbeat:
    at = AT + 5 * sequence
    mark = f"{node} {session} {sequence}".encode()
    return Heartbeat(node, session, sequence, at, at - 7200, mark, b"\0" + mark, b"\xff" * 3000)


class OpenNodeStore(Protocol):
    """Opens the nodes, each time as another hub would."""

    def __call__(self) -> NodeStore: ...


class NodeStoreContract:
    """Subclass it with a fixture `reopen`: opens the store, each time as another hub would."""

    def test_there_are_no_nodes_at_first(self, reopen: OpenNodeStore) -> None:
        store = reopen()
        assert list(store.nodes()) == []
        assert list(store.beats("n1")) == []
        assert not store.remove("n1")
        assert list(store.take([beat(1)])) == [], "a node that was not added may not report"
        assert list(store.nodes()) == []

    def test_nodes_are_there_for_every_hub(self, reopen: OpenNodeStore) -> None:
        store = reopen()
        store.put(TWO)
        store.put(ONE)
        assert list(reopen().nodes()) == [ONE, TWO]
        store.put(replace(ONE, token_hash=OTHER, drained=True, added=AT + 99))
        assert list(reopen().nodes()) == [replace(ONE, token_hash=OTHER, drained=True), TWO]

    def test_a_token_is_one_nodes(self, reopen: OpenNodeStore) -> None:
        store = reopen()
        store.put(ONE)
        with pytest.raises(Conflict):
            store.put(replace(TWO, token_hash=ONE.token_hash))
        assert list(store.nodes()) == [ONE]

    def test_the_last_heartbeat_is_there_whole(self, reopen: OpenNodeStore) -> None:
        store = reopen()
        store.put(ONE)
        store.put(TWO)
        beats = [beat(1), beat(1, "n2"), beat(2)]
        assert list(store.take(beats)) == beats
        assert (*reopen().beats("n1"), *reopen().beats("n2")) == (beat(2), beat(1, "n2"))
        heard = [(node.heard, node.digest) for node in reopen().nodes()]
        assert heard == [(AT + 10, b"n1 a 2"), (AT + 5, b"n2 a 1")]
        store.put(replace(ONE, drained=True))
        assert list(reopen().beats("n1")) == [beat(2)], "a mark changes no heartbeat"

    def test_heartbeats_since_a_time(self, reopen: OpenNodeStore) -> None:
        store = reopen()
        store.put(ONE)
        store.take([beat(1), beat(2), beat(3)])
        found = reopen().beats("n1", AT + 5)
        assert [(one.sequence, one.ticks) for one in found] == [(n, beat(n).ticks) for n in (2, 3)]

    def test_what_comes_again_or_late_is_left_out(self, reopen: OpenNodeStore) -> None:
        store = reopen()
        store.put(ONE)
        store.take([beat(1), beat(2), beat(3)])
        assert list(reopen().take([beat(2), beat(3), beat(4), beat(4)])) == [beat(4)]
        assert list(store.beats("n1")) == [beat(4)]

    def test_an_agent_that_starts_again_counts_from_one(self, reopen: OpenNodeStore) -> None:
        store = reopen()
        store.put(ONE)
        store.take([beat(8), beat(9)])
        assert list(store.take([beat(1, session="b")])) == [beat(1, session="b")]
        assert list(store.take([beat(9), beat(1, session="b")])) == [], "a replay of either"
        assert list(store.beats("n1")) == [beat(1, session="b")]

    def test_a_removed_node_is_gone_and_may_come_back(self, reopen: OpenNodeStore) -> None:
        store = reopen()
        store.put(ONE)
        store.take([beat(5)])
        assert store.remove("n1")
        assert (list(reopen().nodes()), list(reopen().beats("n1"))) == ([], [])
        assert list(store.take([beat(6)])) == []
        store.put(replace(ONE, token_hash=OTHER))
        assert list(store.beats("n1")) == []
        assert list(store.take([beat(1, session="c")])) == [beat(1, session="c")]

    def test_it_may_be_closed_twice(self, reopen: OpenNodeStore) -> None:
        store = reopen()
        store.close()
        store.close()


class OpenNodePasts(Protocol):
    """Opens what is kept beside the heartbeats, each time as another hub would."""

    def __call__(self) -> NodePasts: ...


RUN = RunRow("aaaabbbb", "train", RunKind.COMMAND, RunState.RUNNING, "n1", AT, "", "ada")


class NodePastsContract:
    """Subclass it with the fixture `reopen` of the nodes and a fixture `pasts`: opens what is kept
    beside their heartbeats in the same database."""

    def test_notices_wait_until_a_hub_has_taken_them(
        self, reopen: OpenNodeStore, pasts: OpenNodePasts
    ) -> None:
        store = reopen()
        store.put(ONE)
        store.put(TWO)
        given = [replace(beat(1), notices=b"hot"), replace(beat(1, "n2"), notices=b"cold")]
        store.take([*given, beat(2)])
        store.take([replace(beat(1), notices=b"again"), beat(3)])
        found = list(pasts().news())
        stored = [(one.node, one.session, one.sequence, one.at, one.notices) for one in found]
        assert stored == [(b.node, b.session, b.sequence, b.at, b.notices) for b in given]
        assert list(pasts().news()) == found, "to read them takes nothing"
        pasts().drop_news(found[:1])
        assert list(pasts().news()) == found[1:]
        pasts().drop_news(found)
        assert list(pasts().news()) == []

    def test_each_node_has_its_turn_and_only_its_latest_wait(
        self, reopen: OpenNodeStore, pasts: OpenNodePasts
    ) -> None:
        store = reopen()
        store.put(ONE)
        store.put(TWO)
        store.take([replace(beat(n), notices=b"x") for n in range(1, 9)])
        store.take([replace(beat(9, "n2"), notices=b"y")])
        assert [(one.node, one.sequence) for one in pasts().news()] == [("n1", 1), ("n2", 9)]
        assert list(pasts().thin_news(3)) == ["n1"] * 5
        assert [(one.node, one.sequence) for one in pasts().news()] == [("n1", 6), ("n2", 9)]
        assert list(pasts().thin_news(3)) == []

    def test_what_is_stored_of_a_node_is_deleted_when_that_is_asked_for(
        self, reopen: OpenNodeStore, pasts: OpenNodePasts
    ) -> None:
        store, opened = reopen(), pasts()
        assert not opened.clear("n1"), "there is none"
        for node in (ONE, TWO):
            store.put(node)
            store.take([replace(beat(1, node.name), notices=b"x")])
            opened.runs(node.name).put([replace(RUN, node=node.name, tags=("good",))])
            opened.alerts(node.name).save({"a": 1}, (), ())
            device = Device("GPU-1", 0, "sim", "H200")
            opened.history(node.name).write(
                (), [UsageInterval("GPU-1", 7, AT, None, None, AT, AT)], [device]
            )
        store.remove("n1")
        assert opened.clear("n1")
        left = [opened.history(name).devices() for name in ("n1", "n2")]
        assert [len(one) for one in left] == [0, 1]
        assert [one.node for one in opened.news()] == ["n2"]
        assert [one.node for one in opened.runs(None).find(RunQuery())] == ["n2"]
        assert opened.alerts("n1").load() is None
        store.put(ONE)
        assert list(store.take([beat(1)])) == [beat(1)], "it may come back"

    def test_tokens_are_there_for_every_hub(self, pasts: OpenNodePasts) -> None:
        ops, ci = NamedToken("ops", "aa", "operate", AT), NamedToken("ci", "bb", "read", AT + 1)
        assert list(pasts().tokens()) == []
        assert [pasts().add_token(one) for one in (ops, ci)] == [True, True]
        assert not pasts().add_token(replace(ops, hash="cc")), "a name is one token's"
        assert list(pasts().tokens()) == [ci, ops]
        assert [pasts().remove_token("ops"), pasts().remove_token("ops")] == [True, False]
        assert list(pasts().tokens()) == [ci]

    def test_runs_are_those_of_a_node_or_of_all(self, pasts: OpenNodePasts) -> None:
        other = replace(RUN, id="ccccdddd", node="n2", began=AT + 1)
        pasts().runs("n1").put([RUN])
        pasts().runs("n2").put([other])
        everywhere = pasts().runs(None)
        assert list(everywhere.find(RunQuery())) == [other, RUN]
        assert list(everywhere.find(RunQuery(words=("train", "n2")))) == [other]
        assert list(pasts().runs("n1").find(RunQuery())) == [RUN]
        pasts().runs("n1").put([replace(RUN, state=RunState.SUCCEEDED)])
        assert everywhere.count(RunQuery(state=RunState.RUNNING)) == 1

    def test_histories_and_alerts_are_one_nodes(self, pasts: OpenNodePasts) -> None:
        opened = pasts()
        opened.alerts("n1").save({"a": 1}, (), ())
        assert opened.alerts("n2").load() is None
        saved = pasts().alerts("n1").load()
        assert saved is not None
        assert saved.state == {"a": 1}
        opened.history("n1").close()
        assert list(opened.history("n1").devices()) == [], "a part closes nothing"

    def test_a_reading_of_many_nodes_is_that_of_their_devices(self, pasts: OpenNodePasts) -> None:
        opened = pasts()
        for node, means in (("n1", (20, 60)), ("n2", (90,))):
            devices = [
                Device(f"GPU-{node}-{place}", place, "nvidia", "H200")
                for place in range(len(means))
            ]
            blocks = [
                (one.uuid, "utilization_percent", Tier.MINUTE, BEGIN, minutes_of(mean))
                for one, mean in zip(devices, means, strict=True)
            ]
            opened.history(node).load(devices, blocks)
        since, until = BEGIN / 1000, BEGIN / 1000 + 4 * HOUR_SECONDS
        found = opened.courses(["n1", "n2", "n3"], "utilization_percent", since, until, 4)
        assert {name: [one.mean for one in line] for name, line in found.items()} == {
            "n1": [40.0, 40.0, None, None], "n2": [90.0, 90.0, None, None],
        }  # fmt: skip
        assert opened.courses(["n1"], "power_watts", since, until, 4) == {}
        assert opened.courses([], "utilization_percent", since, until, 4) == {}

    def test_one_hub_leads_until_it_ends(self, pasts: OpenNodePasts) -> None:
        first, second = pasts(), pasts()
        assert (first.leads(), second.leads(), first.leads()) == (True, False, True)
        first.close()
        first.close()
