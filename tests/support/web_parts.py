"""A server in this process, over snapshots built by hand; its clock and its callers are ours."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from andon.access.gate import Rules
from andon.alerts.watcher import Watcher
from andon.explain.conditions.rulebook import Rulebook
from andon.host.processes.kin import started_ticks
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.book.places import VARIABLE
from andon.leases.network import NetworkLeases
from andon.leases.tracker import LeaseTracker
from andon.model.device import Snapshot
from andon.model.request import Ring, RunAccount
from andon.node.watched.jobs import ServedJobs
from andon.node.watched.live import PAST_SNAPSHOTS, WatchedLive
from andon.node.watched.node import WatchedNode
from andon.node.watched.recorded_past import NoPast, RecordedPast
from andon.node.watched.runs import ServedRuns
from andon.sampling.bus import Bus, Subscription
from andon.sampling.sampler import Costs, Sampler
from andon.settings.resolution import Settings
from andon.stores.memory import MemoryAlertStore
from andon.web.answers.health import HealthPart, health
from andon.web.app import build
from andon.web.route_parts import RouteParts
from andon.web.transport.audit import Audit
from andon.web.transport.headers import App, Receive, Scope, Send
from andon.web.transport.keys import Keys
from tests.support.queued_jobs import one_job
from tests.support.served_runs import runs_of

TOKEN = "t" * 43
BEARER = {"Authorization": f"Bearer {TOKEN}"}
HOME = Rules(loopback=True)
OUTSIDE = Rules(loopback=False, names=frozenset({"localhost", "node17"}))


class Hand(Sampler):
    """A sampler whose snapshots are handed to it; the bus and its sessions are the real ones."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self.bus = Bus()
        self._given = snapshots
        self.accounts: list[RunAccount] = []

    def subscribe(
        self, interval_seconds: float, watching: bool = False, size: int = 64, at_once: bool = True
    ) -> Subscription:
        subscription = self.bus.subscribe(interval_seconds, watching, max(size, len(self._given)))
        for number, snapshot in enumerate(self._given):
            subscription.add_events(snapshot.events)
            subscription.put(snapshot, number * interval_seconds)
        return subscription

    def ask_places(self) -> None:
        """Its snapshots are what they are."""

    def once(
        self,
        expensive_fields: bool = False,
        with_host: bool = True,
        account: RunAccount = RunAccount.NONE,
    ) -> Snapshot:
        """The last one that was handed over, as if it were read now."""
        if account:
            self.account(account)
        return self._given[-1]

    def account(self, wanted: RunAccount) -> None:
        self.accounts.append(wanted)

    def rings(self) -> dict[str, Ring]:
        return {}

    def give(self, snapshot: Snapshot) -> None:
        self._given = (*self._given, snapshot)
        self.bus.add_events(snapshot.events)
        self.bus.publish(snapshot, time.monotonic())

    def costs(self) -> Costs:
        return Costs(snapshots=len(self._given))

    def reader_pids(self) -> list[int]:
        return []

    def close(self) -> None:
        self.bus.close()


class Parts:
    """The application and what it is made of."""

    def __init__(
        self,
        folder: Path,
        snapshots: Sequence[Snapshot],
        rules: Rules = HOME,
        memory: RecordedPast | NoPast | None = None,
        longest_wait_seconds: float = 30.0,
        audit: Audit | None = None,
        broken: Callable[[], Mapping[str, str]] = dict,
        runs: ServedRuns | None = None,
        jobs: ServedJobs | None = None,
    ) -> None:
        self.sampler = Hand(*snapshots)
        self.live = WatchedLive(self.sampler, 1.0, PAST_SNAPSHOTS)
        if snapshots:
            assert self.live.wait_for_first(10)
        self.keys, self.audit = Keys(TOKEN), audit or Audit(folder)
        kept = memory or NoPast("history is disabled", "start without --no-history")
        self.watcher = Watcher(self.sampler.subscribe(1.0), Rulebook(), MemoryAlertStore)
        self.watcher._writer.opened(10)  # else alerts of the past are not there yet
        availability = Availability(
            lambda: self.sampler.once(with_host=False), simulated=True, broken=broken
        )
        self.env = {VARIABLE: os.environ.get(VARIABLE, str(folder / "book"))}
        self.lender = NetworkLeases(availability, self.live.latest, self.env, longest_wait_seconds)
        self.ledger = LeaseTracker(self.sampler.subscribe(1.0), self.env)
        known: dict[str, HealthPart] = {"store": kept, "leases": self.ledger}
        self.node = WatchedNode(
            "node",
            Settings(),
            self.live,
            kept,
            self.watcher,
            runs or runs_of([]),
            self.lender,
            self.ledger,
            self.keys.owner.user,
            jobs or one_job(folder / "jobs"),
        )
        self.shop = RouteParts(
            self.node,
            self.keys,
            Settings(),
            partial(health, self.live, self.sampler, Settings()),
            known,
            lambda: "andon_up 1\n",
        )
        self.app: App = build(self.shop, rules, self.audit)

    def close(self) -> None:
        self.live.close()
        self.watcher.close()
        self.lender.close()
        self.ledger.close()


class Caller:
    """Someone at an address, who uses a name of the server; no network is between."""

    def __init__(self, app: App, peer: str, host: str) -> None:
        self._app, self._peer, self._host = app, peer, host

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        return asyncio.run(self.ask(method, path, **more))

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)

    def delete(self, path: str, **more: Any) -> httpx.Response:
        return self.request("DELETE", path, **more)

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(
            self._app,
            raise_app_exceptions=False,
            client=(self._peer, 50_000),
        )
        url = f"http://{self._host}"
        async with httpx.AsyncClient(transport=transport, base_url=url) as client:
            return await client.request(method, path, **more)


@contextmanager
def served(parts: Parts, peer: str = "127.0.0.1", host: str = "localhost") -> Iterator[Caller]:
    yield Caller(parts.app, peer, host)
    parts.close()


def end_holders(book: Book) -> None:
    """Whatever a test left: every holder is asked to end, and does."""
    pids = [e.lease.owner.pid for e in book.entries() if e.locked and e.lease is not None]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + 60
    while any(started_ticks(pid) is not None for pid in pids):
        assert time.monotonic() < end, "a holder does not end"
        time.sleep(0.01)


def at_home(app: App) -> App:
    """The application as it looks to a caller on its own machine, whatever that one says."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        others = [pair for pair in scope.get("headers", ()) if pair[0] != b"host"]
        home = {"client": ("127.0.0.1", 1), "headers": [(b"host", b"localhost"), *others]}
        await app({**scope, **home}, receive, send)

    return called
