"""The contract of every alert store, as a pytest suite that other packages can use too."""

from typing import Protocol

from msgspec.structs import replace

from andon.alerts.rules.outbox import Delivery
from andon.alerts.rules.past import RETENTION_SECONDS, Query
from andon.model.alert import Alert, Level, Notice, NoticeKind, Phase
from andon.model.event import Party
from andon.ports import AlertStore

AT = 1_794_700_800.0  # 2026-11-15 00:00 UTC
HOT = Alert(
    id="thermal@GPU-1#1794699720",
    rule="thermal",
    subject="GPU-1",
    level=Level.CRITICAL,
    state=Phase.FIRING,
    since=AT - 720,
    where="GPU 3 (NVIDIA H200)",
    device=3,
    severity=80,
    fired=AT - 660,
    value=91.0,
    threshold=80.0,
    limit=89.0,
    unit="celsius",
    message="GPU 3 is too hot: 91 °C (slows down at 89 °C)",
    advice="Check the cooling: dust, blocked slots, a warm room.",
    affected=(Party(4242, "ada", "python", "python train.py --token hunter2hunter2 --epochs 9"),),
)
LOST = replace(
    HOT,
    id="lost@GPU-2#1794700740",
    rule="lost",
    subject="GPU-2",
    device=5,
    where="GPU 5 (NVIDIA H200)",
    since=AT - 60,
    severity=100,
    message="GPU 5 is lost: the driver says that it has fallen off the bus",
    advice="Find the cause: sudo dmesg | grep -i xid. Then reset it, or reboot.",
    affected=(Party(1, "bob"), Party(2, "bob"), Party(3, "eve")),
)
DISK = replace(
    HOT,
    id="node_disk@node#1794614400",
    rule="node_disk",
    subject="node",
    device=None,
    where="this node",
    level=Level.WARNING,
    since=AT - 86_400,
    severity=50,
    message="/home is nearly full: 97 %",
    advice="Make room: du -xh --max-depth 2 /home | sort -h | tail",
    affected=(),
)


class OpenAlertStore(Protocol):
    """Opens the alerts, each time as after a restart."""

    def __call__(self, node: str = "node-1") -> AlertStore: ...


def notice(
    alert: Alert = HOT, kind: NoticeKind = NoticeKind.FIRING, simulated: bool = False
) -> Notice:
    return Notice(f"{alert.id}:{kind}", kind, alert, AT, "node7", simulated)


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

    def test_delivered_notices_are_gone(self, reopen: OpenAlertStore) -> None:
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
        assert ledger.prune(AT + RETENTION_SECONDS - 1) == 0
        assert ledger.prune(AT + RETENTION_SECONDS + 1) == 1
        assert [alert.rule for alert in ledger.episodes(Query())] == ["node_disk"]

    def test_long_command_lines_and_crowds_are_not_kept_for_a_year(
        self, reopen: OpenAlertStore
    ) -> None:
        crowd = tuple(Party(n, "ada", "python", "x" * 4096) for n in range(100))
        reopen().save({}, [replace(HOT, affected=crowd)], [])
        (episode,) = reopen().episodes(Query())
        assert len(episode.affected) == 4
        assert all(len(party.command or "") <= 200 for party in episode.affected)

    def test_nodes_of_one_database_are_separate(self, reopen: OpenAlertStore) -> None:
        """The same alerts and deliveries: only the node differs."""
        first, second = reopen("node-1"), reopen("node-2")
        first.save({"n": 1}, [DISK, over(HOT)], [delivery(), delivery(DISK)])
        assert (second.load(), list(second.episodes(Query()))) == (None, [])
        second.save({"n": 2}, [over(DISK), over(HOT)], [delivery(due=AT + 5)])
        saved = reopen("node-1").load()
        assert saved is not None
        assert (saved.state, list(saved.deliveries)) == ({"n": 1}, [delivery(), delivery(DISK)])
        second.save({"n": 3}, [], [])
        assert second.prune(AT + RETENTION_SECONDS + 1) == 2
        saved, other = reopen("node-1").load(), reopen("node-2").load()
        assert saved is not None
        assert other is not None
        assert (saved.state, len(saved.deliveries)) == ({"n": 1}, 2)
        assert (other.state, len(other.deliveries)) == ({"n": 3}, 0)
        assert list(first.episodes(Query())) == [over(HOT), DISK]
        assert list(second.episodes(Query())) == []
