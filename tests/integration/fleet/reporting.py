"""Reporters to a hub under faults: what was acknowledged to them, to be looked for afterwards."""

import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise

from andon.errors import AndonError
from andon.fleet.link import HEARTBEAT, HubLink
from andon.fleet.rules.digest import Digest, encoded
from andon.fleet.rules.heartbeat import HeartbeatHeader, deflated, heartbeat_body
from andon.node.calls import CallLimits
from tests.integration.serving import Served
from tests.support.postgres import Server
from tests.support.waiting import wait_for

LIMITS = CallLimits(timeout_seconds=10.0, most_bytes=1 << 16)
PAUSE_SECONDS = 0.02
SECONDS = 120
JSON = {"Content_Type": "application/json"}


class Reporter:
    """Reports as an agent does, fifty times a second: each attempt has the next number."""

    def __init__(self, name: str, token: str, *urls: str) -> None:
        """With several hubs it goes to the next when one does not answer."""
        self.name, self._token, self._urls = name, token, list(urls)
        self.session, self.acknowledged = secrets.token_hex(4), list[int]()
        self.failed, self.times = 0, list[float]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(30)

    def _run(self) -> None:
        link, number = HubLink(self._urls[0], self._token, LIMITS), 0
        digest = encoded(Digest(self.name, "m", "1.0", gpus=8))
        report = deflated({})
        while not self._over.wait(PAUSE_SECONDS):
            number += 1
            header = HeartbeatHeader(self.session, number, time.time())
            try:
                link.send(HEARTBEAT, heartbeat_body(header, digest, report, b""))
                self.acknowledged.append(number)
                self.times.append(time.monotonic())
            except AndonError:
                self.failed += 1
                link.close()
                self._urls.append(self._urls.pop(0))
                link = HubLink(self._urls[0], self._token, LIMITS)
                self._over.wait(0.1)
        with suppress(OSError):
            link.close()


def added(hub: Served, name: str) -> str:
    """Returns the token of a new node."""
    body = f'{{"name": "{name}"}}'
    return str(hub.ask("/api/nodes", "POST", body, **JSON, **hub.bearer).json()["token"])


@contextmanager
def reporting(hub: Served, *others: Served, count: int = 3) -> Iterator[list[Reporter]]:
    """Reporters of nodes that the hub has just added."""
    urls = [one.url for one in (hub, *others)]
    tokens = {f"r{n}": added(hub, f"r{n}") for n in range(count)}
    found = [Reporter(name, token, *urls) for name, token in tokens.items()]
    try:
        go_on(found)
        yield found
    finally:
        for one in found:
            one.end()


def go_on(reporters: Sequence[Reporter]) -> None:
    """Waits until each has been acknowledged once more."""
    before = [len(one.acknowledged) for one in reporters]

    def more() -> bool:
        counts = [len(one.acknowledged) for one in reporters]
        return all(now > then for now, then in zip(counts, before, strict=True))

    wait_for(more, SECONDS)


def are_refused(reporters: Sequence[Reporter]) -> None:
    """Waits until each has failed once more."""
    before = [one.failed for one in reporters]
    wait_for(
        lambda: all(one.failed > then for one, then in zip(reporters, before, strict=True)), SECONDS
    )


def nothing_is_lost_or_twice(
    reporters: Sequence[Reporter], database: Server, url: str = ""
) -> None:
    """Everything that was acknowledged is in the database, and nothing is there twice. With
    `pytest -s` it says how much that was, and how long nothing was acknowledged."""
    asked = "SELECT name, session, sequence FROM beat JOIN node ON node.id = beat.node"
    rows = database.sql(asked, url)
    assert len(rows) == len(set(rows)), "nothing is there twice"
    for one in reporters:
        kept = {row[2] for row in rows if row[:2] == (one.name, one.session)}
        assert set(one.acknowledged) <= kept, "what was acknowledged is there"
    away = max(after - before for one in reporters for before, after in pairwise(one.times))
    taken = sum(len(one.acknowledged) for one in reporters)
    failed = sum(one.failed for one in reporters)
    print(f"\n{taken} acknowledged, {failed} failed, {away:.1f} s without")
