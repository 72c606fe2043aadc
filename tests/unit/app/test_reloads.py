"""A reload takes over all settings or none; the watchdog is fed while samples are taken."""

import os
import signal
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from andon.app.servers import reloading
from andon.app.servers.node import watchdog_feed
from andon.app.servers.reloading import SettingsInForce, reloads
from andon.errors import AndonError, Invalid
from andon.host.rules.service_variables import LONGEST_TURN_SECONDS
from andon.settings.table import Settings
from tests.support.replaced import answers
from tests.support.waiting import wait_for

OLD = Settings(share_labels=("quiet:0",), alerts_figures=(("thermal_celsius", 85.0),))
NEW = replace(OLD, share_labels=("loud:1",), alerts_figures=(("thermal_celsius", 71.0),))


class Reloaded:
    """What a reload reaches, and what it said of each attempt."""

    def __init__(self) -> None:
        self.in_force, self.read = SettingsInForce(OLD), NEW
        self.wrong: AndonError | None = None
        self.statuses, self.labels, self.renewed = list[str](), list[Mapping[int, Any]](), 0
        self.parts = reloads(
            self.in_force,
            self._any(reloading=lambda: None, ready=self.statuses.append),
            self._any(last=None),
            self._any(judge_by=self._judge_by),
            self._any(relabel=self.labels.append),
            reread=lambda: self.read,
            keys=self._any(renew_token=self._renew),
        )

    def _any(self, **what: object) -> Any:
        return SimpleNamespace(**what)

    def _judge_by(self, *_: object) -> None:
        if self.wrong is not None:
            raise self.wrong

    def _renew(self, token: str) -> bool:
        self.renewed += 1
        return True

    def ask(self) -> str:
        """Sends the signal; returns what the service manager is then told."""
        before = len(self.statuses)
        os.kill(os.getpid(), signal.SIGHUP)
        wait_for(lambda: len(self.statuses) > before)
        return self.statuses[-1]


@pytest.fixture
def reloaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reloaded]:
    answers(monkeypatch, reloading, "_has_terminal", False)
    answers(monkeypatch, reloading, "make_token", "new")
    before = signal.getsignal(signal.SIGHUP)
    made = Reloaded()
    yield made
    assert made.parts is not None
    made.parts.close()
    signal.signal(signal.SIGHUP, before)


def test_what_is_wrong_late_leaves_all_as_it_was_and_a_later_reload_takes_all(
    reloaded: Reloaded,
) -> None:
    reloaded.wrong = Invalid("notifier mail: no address is set")
    assert reloaded.ask() == "the settings stay as they are: one is wrong"
    assert (reloaded.in_force.settings, reloaded.labels, reloaded.renewed) == (OLD, [], 0)
    reloaded.wrong = None
    assert reloaded.ask() == (
        "read again: share.labels, alerts.thermal_celsius = 71; the token: all sessions have ended"
    )
    assert (reloaded.in_force.settings, len(reloaded.labels), reloaded.renewed) == (NEW, 1, 1)


class Stuck(Struct):
    """A sampler at one of its turns."""

    seconds: float
    runs: bool = True

    def turn_seconds(self) -> float:
        return self.seconds


def test_the_watchdog_is_not_fed_while_a_sample_hangs() -> None:
    fed = list[int]()
    service: Any = SimpleNamespace(feed_seconds=1.0, works=lambda: fed.append(1))
    sampler: Any = Stuck(LONGEST_TURN_SECONDS)
    (feed,) = watchdog_feed(service, sampler)
    assert feed is not None
    feed.call()
    assert fed == []
    sampler.seconds = 0.5
    feed.call()
    assert fed == [1]
