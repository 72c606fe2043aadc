"""The threads of top that read: what fails is shown, and the rest goes on."""

from types import SimpleNamespace
from typing import Any

import pytest

from andon.cli.terminal import Choices
from andon.model.device import Snapshot
from andon.tui.sources import feed as feeding
from andon.tui.sources.feed import Feed, Tick
from andon.tui.sources.side import Side, Wanted
from tests.support.snapshots import office
from tests.support.waiting import wait_for


class Stumbling:
    """A source whose first reading fails in a way that nobody expects."""

    words = ""

    def __init__(self) -> None:
        self.asked = 0

    def get(self) -> Snapshot | None:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("unforeseen")
        return office()

    def pace(self, interval_seconds: float) -> None: ...

    def close(self) -> None: ...


def test_a_reading_that_fails_unexpectedly_is_told_and_the_next_one_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeding, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(feeding, "open_source", lambda *_: Stumbling())
    ticks = list[Tick]()
    feed = Feed(Choices(), 1.0)
    feed.attach(ticks.append)
    feed.start()
    wait_for(lambda: any(tick.snapshot for tick in ticks))
    feed.close()
    assert "unforeseen" in (ticks[0].notice or "")


def test_a_list_that_fails_unexpectedly_says_so_in_its_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = list[Any]()
    feed: Any = SimpleNamespace(is_server=False, source=None)
    side = Side(Choices(), feed, Wanted(), lambda changes, _: told.append(changes))
    monkeypatch.setattr(side, "_read_runs", lambda _: dict[str, int]()["missing"])
    side._do("runs", office())
    assert told == [{"notes": {"runs": "it cannot be read: KeyError('missing')"}}]
