"""The contract of every alert store, as a pytest suite that other packages can use too."""

from typing import Protocol

from msgspec.structs import replace

from andon.alerts.rules.outbox import Delivery
from andon.alerts.rules.past import KEPT_SECONDS, Query
from andon.model.alert import Alert, Level, Phase
from andon.model.event import Party
from andon.ports import AlertStore
from andon.testing.notices import AT, DISK, HOT, LOST, notice


class OpenAlertStore(Protocol):
    """Opens the alerts, each time as after a restart."""

    def __call__(self, node: str = "node-1") -> AlertStore: ...


def delivery(alert: Alert = HOT, notifier: str = "phone", due: float = AT) -> Delivery:
    return Delivery(notice(alert), notifier, due)


def over(alert: Alert) -> Alert:
    return replace(alert, state=Phase.RESOLVED, resolved=AT)


QUERIES: tuple[tuple[Query, list[Alert]], ...] = (
    (Query(), [LOST, HOT, DISK]),
    (Query(limit=2), [LOST, HOT]),
    (Query(state=Phase.RESOLVED), [HOT]),
    (Query(state=Phase.FIRING), [LOST, DISK]),
    (Query(level=Level.WARNING), [DISK]),
    (Query(rule="device_lost"), []),
    (Query(rule="lost"), [LOST]),
    (Query(subject="node"), [DISK]),
    (Query(until=HOT.since), [DISK]),
    (Query(since=AT + 1), [LOST, DISK]),
    (Query(since=AT), [LOST, HOT, DISK]),
)


class AlertStoreContract:
    """Subclass it with a fixture `reopen`: opens the store for a node, each time as after a
    restart."""

    def test_an_empty_ledger_has_nothing(self, reopen: OpenAlertStore) -> None:
        assert reopen().load() is None
        assert list(reopen().episodes(Query())) == []
        assert reopen().prune(AT) == 0

    def test_state_and_deliveries_are_there_after_a_restart(self, reopen: OpenAlertStore) -> None:
        deliveries = [delivery(), delivery(notifier="mail", due=AT + 5), delivery(LOST)]
        reopen().save({"a": [1, "ü", None]}, [], deliveries)
        saved = reopen().load()
        assert saved is not None
        assert saved.state == {"a": [1, "ü", None]}
        assert list(saved.deliveries) == deliveries

    def test_what_is_not_to_be_told_any_more_is_gone(self, reopen: OpenAlertStore) -> None:
        ledger = reopen()
        ledger.save({}, [], [delivery(), delivery(LOST)])
        ledger.save({}, [], [delivery(LOST), delivery(DISK)])
        saved = reopen().load()
        assert saved is not None
        assert list(saved.deliveries) == [delivery(LOST), delivery(DISK)]

    def test_an_episode_is_kept_once_and_as_it_last_was(self, reopen: OpenAlertStore) -> None:
        ledger = reopen()
        ledger.save({}, [HOT], [])
        ledger.save({}, [over(HOT)], [])
        assert list(reopen().episodes(Query())) == [over(HOT)]

    def test_what_never_fired_is_not_kept(self, reopen: OpenAlertStore) -> None:
        ledger = reopen()
        vain = replace(HOT, fired=None, state=Phase.RESOLVED, resolved=AT)
        ledger.save({}, [replace(HOT, fired=None, state=Phase.PENDING), vain], [])
        assert list(ledger.episodes(Query())) == []

    def test_the_past_can_be_asked_for(self, reopen: OpenAlertStore) -> None:
        ledger = reopen()
        ledger.save({}, [DISK, over(HOT), LOST], [])
        for query, found in QUERIES:
            rules = [alert.rule for alert in ledger.episodes(query)]
            assert rules == [alert.rule for alert in found], query

    def test_old_episodes_go_and_what_fires_stays(self, reopen: OpenAlertStore) -> None:
        ledger = reopen()
        ledger.save({}, [over(HOT), DISK], [])
        assert ledger.prune(AT + KEPT_SECONDS - 1) == 0
        assert ledger.prune(AT + KEPT_SECONDS + 1) == 1
        assert [alert.rule for alert in ledger.episodes(Query())] == ["node_disk"]

    def test_long_command_lines_and_crowds_are_not_kept_for_a_year(
        self, reopen: OpenAlertStore
    ) -> None:
        crowd = tuple(Party(n, "ada", "python", "x" * 4096) for n in range(100))
        reopen().save({}, [replace(HOT, affected=crowd)], [])
        (kept,) = reopen().episodes(Query())
        assert len(kept.affected) == 4
        assert all(len(party.command or "") <= 200 for party in kept.affected)

    def test_nodes_of_one_database_are_apart(self, reopen: OpenAlertStore) -> None:
        """The same alerts and deliveries: only the node differs."""
        first, second = reopen("node-1"), reopen("node-2")
        first.save({"n": 1}, [DISK, over(HOT)], [delivery(), delivery(DISK)])
        assert (second.load(), list(second.episodes(Query()))) == (None, [])
        second.save({"n": 2}, [over(DISK), over(HOT)], [delivery(due=AT + 5)])
        saved = reopen("node-1").load()
        assert saved is not None
        assert (saved.state, list(saved.deliveries)) == ({"n": 1}, [delivery(), delivery(DISK)])
        second.save({"n": 3}, [], [])
        assert second.prune(AT + KEPT_SECONDS + 1) == 2
        saved, other = reopen("node-1").load(), reopen("node-2").load()
        assert saved is not None
        assert other is not None
        assert (saved.state, len(saved.deliveries)) == ({"n": 1}, 2)
        assert (other.state, len(other.deliveries)) == ({"n": 3}, 0)
        assert list(first.episodes(Query())) == [over(HOT), DISK]
        assert list(second.episodes(Query())) == []
