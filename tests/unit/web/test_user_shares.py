"""What each user used, as the board's page of people shows it."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from andon.history.rules.usage import UserUsage
from andon.settings.resolution import Settings
from andon.web.routes import users
from tests.support.replaced import answers


def test_a_year_of_many_users_takes_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """To go through all days for each user took more than a minute."""
    names, days = [f"u{number:03}" for number in range(300)], [f"{n:03}" for n in range(360)]
    used = {(day, name): UserUsage(name) for day in reversed(days) for name in names}
    answers(monkeypatch, users, "by_day", used)
    past: Any = SimpleNamespace(usage=lambda *_: [])
    began = time.monotonic()
    found = users.shares(past, 0.0, 31_536_000.0, Settings())
    assert time.monotonic() - began < 30
    assert [one.user for one in found.items] == names
    assert all([one.day for one in each.days] == days for each in found.items)


def test_a_future_without_readings_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the year 3000 there are four million buckets, and whoever may read can ask for them."""
    answers(monkeypatch, users, "by_day", {})
    points, use = list[int](), SimpleNamespace(device="x", first=time.time() - 3600.0)

    def history(*given: Any) -> list[Any]:
        points.append(given[-1])
        return []

    past: Any = SimpleNamespace(usage=lambda *_: [use], history=history)
    found = users.shares(past, 0.0, 32_503_680_000.0, Settings())
    assert (found.since, found.until, found.items) == (0.0, 32_503_680_000.0, [])
    assert max(points) < 1000
