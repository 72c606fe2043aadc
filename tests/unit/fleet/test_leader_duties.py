"""What one hub does for all nodes: what one of them sends ends with that node."""

import logging
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from andon.errors import Invalid, Unavailable
from andon.fleet.rules.heartbeat import deflated
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.model.codec import to_json
from andon.web.fleet import leader_duties
from andon.web.fleet.fleet_alerts import FleetAlerts
from andon.web.fleet.hub import Hub
from andon.web.fleet.leader_duties import LeaderDuties
from andon.web.fleet.nodes import Fleet
from tests.support.notices import HOT, notice
from tests.support.replaced import answers, calls_of, constants, fails
from tests.support.waiting import wait_for

GOOD = deflated({"notices": [{"notice": to_json(notice(HOT))}]})


class Pasts:
    """What a database has, and what was asked of it."""

    def __init__(self, *news: Heartbeat) -> None:
        self.waiting, self.kept = list(news), list[str]()

    def leads(self) -> bool:
        return True

    def tokens(self) -> Sequence[Any]:
        return ()

    def news(self) -> Sequence[Heartbeat]:
        first = {one.node: one for one in reversed(self.waiting)}
        return sorted(first.values(), key=lambda one: one.at)

    def drop_news(self, taken: Sequence[Heartbeat]) -> None:
        self.waiting = [one for one in self.waiting if one not in taken]

    def thin_news(self, most: int) -> Sequence[str]:
        return ()

    def history(self, node: str) -> Any:
        self.kept.append(node)
        return SimpleNamespace(contents=lambda: SimpleNamespace(extents={}))

    def alerts(self, node: str) -> Any:
        return SimpleNamespace(prune=lambda at: 0)


class Nodes:
    """Two nodes that have been silent for long; the last report of one is nonsense."""

    def nodes(self) -> Sequence[FleetNode]:
        digest = b'{"node":"n17","machine":"m","version":"1"}'
        return [
            FleetNode(name, name, 0.0, heard=1.0, sent=1.0, digest=digest)
            for name in ("n17", "n18")
        ]

    def beats(self, name: str, since: float | None = None) -> Sequence[Heartbeat]:
        return [beat(name, 1.0, zlib.compress(b"[1]"))] if name == "n17" else []


def beat(node: str, at: float, report: bytes = b"", notices: bytes = b"") -> Heartbeat:
    return Heartbeat(node, "s", int(at), at, at, b"", report, b"", notices)


class Teller:
    """In place of the watcher that notifies people."""

    def __init__(self, works: bool = True) -> None:
        self.told, self._works = list[str](), works

    def relay(self, given: Sequence[Any]) -> bool:
        self.told += [one.notice.node for one in given] if self._works else []
        return self._works

    def subscribe(self, listener: object) -> None: ...

    def close(self) -> None: ...


def kept(monkeypatch: pytest.MonkeyPatch, pasts: Pasts, teller: Teller) -> Iterator[LeaderDuties]:
    constants(monkeypatch, leader_duties, CHECK_SECONDS=0.01, GRACE_SECONDS=0.0)
    hub = Hub(Nodes)  # type: ignore[arg-type]
    fleet = Fleet(hub, lambda: pasts, "andon")  # type: ignore[arg-type,return-value]
    alerts = FleetAlerts(None, "hub", lambda: pasts, lambda *_: teller)  # type: ignore[arg-type,return-value]
    keeper = LeaderDuties(fleet, alerts, lambda _: SimpleNamespace(step=lambda at: None))  # type: ignore[arg-type,return-value]
    yield keeper
    keeper.close()


def test_what_one_node_sent_does_not_end_the_duty_for_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pasts, teller = Pasts(), Teller()
    with caplog.at_level(logging.WARNING, "andon.hub"):
        keeper = next(keeping_one := kept(monkeypatch, pasts, teller))
        wait_for(lambda: pasts.kept.count("n17") > 2 and pasts.kept.count("n18") > 2, 60)
        assert (keeper.leads, keeper.health()["state"]) == (True, "ok")
        next(keeping_one, None)
    logged = [one.getMessage() for one in caplog.records if "n17" in one.getMessage()]
    assert logged == ["n17: its last readings are not kept: a JSON object was expected"]


def test_a_node_that_is_removed_meanwhile_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another hub removes it while this one sends notices, which may take seconds."""
    pasts = Pasts()
    keeper = next(keeping_one := kept(monkeypatch, pasts, Teller()))
    next(keeping_one, None)  # only the look below
    hub, left = keeper._fleet.hub, Nodes().nodes()[1:]

    def removed(most: int) -> Sequence[str]:
        answers(monkeypatch, hub.store, "nodes", left)
        hub.read_at = float("-inf")
        return ()

    monkeypatch.setattr(pasts, "thin_news", removed)
    keeper._upkeep_queue = iter(["n17"])
    pasts.kept.clear()
    keeper._check()
    assert (keeper.leads, pasts.kept) == (True, ["n18"])


def test_a_notice_that_cannot_be_read_costs_its_own_node(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = [beat("n17", at, notices=zlib.compress(b"[1]")) for at in (1.0, 2.0, 3.0)]
    deep = beat("n19", 1.5, notices=zlib.compress(b'{"notices":' + b"[" * 10**5))
    pasts, teller = Pasts(*bad, deep, beat("n18", 9.0, notices=GOOD)), Teller()
    keeper = next(keeping_one := kept(monkeypatch, pasts, teller))
    wait_for(lambda: not pasts.waiting, 60)
    wait_for(lambda: keeper.health()["notice_waits_seconds"] is None, 60)
    assert (teller.told, keeper.leads) == (["n18"], True)
    next(keeping_one, None)


def test_health_says_whose_notice_waits_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clocks say: the notice is dated tomorrow by a hub whose clock was wrong."""
    constants(monkeypatch, leader_duties, LATE_SECONDS=0.0)
    pasts = Pasts(beat("n18", time.time() + 86_400, notices=GOOD))
    keeper = next(keeping_one := kept(monkeypatch, pasts, Teller(works=False)))
    wait_for(lambda: keeper.health()["notice_waits_seconds"], 60)
    said = keeper.health()
    assert said["state"] == "failing"
    assert said["reason"].startswith("a notice of n18 has waited for ")
    assert 0.0 <= said["notice_waits_seconds"] < 3600
    next(keeping_one, None)


def test_health_asks_no_database_which_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered in the event loop, where everyone would wait for the database."""
    keeper = next(keeping_one := kept(monkeypatch, Pasts(), Teller()))
    wait_for(lambda: keeper.health()["nodes"] == 2, 60)
    next(keeping_one, None)
    hub = keeper._fleet.hub
    hub.read_at = float("-inf")
    fails(monkeypatch, hub.store, "nodes", AssertionError("the database was asked"))
    with hub._lock:  # whoever asks it waits
        asking = threading.Thread(target=lambda: said.append(keeper.health()), daemon=True)
        said = list[dict[str, Any]]()
        asking.start()
        asking.join(60)
    assert [one["nodes"] for one in said] == [2]


def test_what_waits_is_sent_in_one_round_whatever_the_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = [beat("n18", time.time() + n, notices=GOOD) for n in (1, 2, 3)]
    pasts, teller = Pasts(*late), Teller()
    alerts = FleetAlerts(None, "hub", lambda: pasts, lambda *_: teller)  # type: ignore[arg-type,return-value]
    alerts.lead(True)
    assert [alerts.relay() for _ in range(4)] == [True, True, True, False]
    assert alerts.waiting is None


def test_silence_is_counted_on_a_clock_that_does_not_jump() -> None:
    now = [5000.0, 100.0]
    digest = b'{"node":"n17","machine":"m","version":"1"}'
    node = [FleetNode("n17", "x", 0.0, heard=5000.0, sent=5000.0, digest=digest)]
    hub = Hub(lambda: SimpleNamespace(nodes=lambda: node), clock=lambda: (now[0], now[1]))

    def state(wall: float, steady: float) -> tuple[str, float | None]:
        now[:] = wall, steady
        (row,) = hub.rows()
        return row.state.value, row.age_seconds

    assert state(5003.0, 103.0) == ("healthy", 3.0), "before this hub started, by its clock"
    assert state(91_403.0, 104.0) == ("healthy", 4.0), "the clock is set forward"
    assert state(-81_400.0, 140.0) == ("silent", 40.0), "and back"
    node[0] = replace(node[0], heard=9e9, sent=9e9)
    hub.nodes(-1.0)
    assert state(5050.0, 141.0) == ("healthy", 0.0), "heard by a hub with another clock"
    assert state(5090.0, 181.0) == ("silent", 40.0)


def test_while_reports_cannot_be_stored_nobody_is_called_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeper = next(keeping_one := kept(monkeypatch, Pasts(), Teller()))
    constants(monkeypatch, leader_duties, GRACE_SECONDS=0.0)
    alerts = keeper._alerts
    wait_for(lambda: len(alerts._troubles) == 2, 60)
    alerts.judge(())
    constants(monkeypatch, leader_duties, GRACE_SECONDS=3600.0)
    hub = keeper._fleet.hub
    hub.trouble, hub.failed_at = Unavailable("the disk is full", hint="free some"), time.monotonic()
    keeper._blind_at = float("-inf")
    alerts.judge(())
    keeper._check()
    assert alerts._troubles == ()
    said = keeper.health()
    assert (said["state"], said["reason"], said["hint"]) == (
        "failing", "the disk is full", "free some",
    )  # fmt: skip
    next(keeping_one, None)


@pytest.mark.slow
def test_a_database_that_is_back_is_given_time_to_hear_its_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nodes that could not report for a minute are not silent."""
    pasts = Pasts()
    keeper = next(keeping_one := kept(monkeypatch, pasts, Teller()))
    constants(monkeypatch, leader_duties, GRACE_SECONDS=0.5)
    judged = calls_of(monkeypatch, keeper._alerts, "judge", lambda _: time.monotonic())
    wait_for(lambda: judged, 60)
    fails(monkeypatch, pasts, "leads", Unavailable("away"))
    wait_for(lambda: not keeper.leads, 60)
    away = time.monotonic()
    judged.clear()
    answers(monkeypatch, pasts, "leads", True)
    wait_for(lambda: judged, 60)
    assert judged[0] - away >= 0.4, "which are silent is not known at once"
    next(keeping_one, None)


def test_a_hubs_own_machine_is_no_node() -> None:
    hub = Hub(Nodes, own="gpu1")  # type: ignore[arg-type]
    for name in ("gpu1", "@hub", "@fleet", "-x", ""):
        with pytest.raises(Invalid):
            hub.add(name)


def test_the_watcher_of_the_nodes_is_opened_again_with_other_settings() -> None:
    opened: list[Teller] = []

    def opener(*_: object) -> Teller:
        opened.append(Teller())
        return opened[-1]

    alerts = FleetAlerts(None, "hub", Pasts, opener)  # type: ignore[arg-type]
    alerts.renew()  # while another hub leads
    alerts.lead(False)
    assert opened == []
    for _ in range(3):
        alerts.lead(True)
    assert len(opened) == 1
    alerts.renew()
    for _ in range(3):
        alerts.lead(True)
    assert len(opened) == 2
    alerts.close()
