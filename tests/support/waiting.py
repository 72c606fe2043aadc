"""Waiting for what another thread or process is sure to do."""

import time
from collections.abc import Callable

import pytest

PATIENCE = 1.2  # each pause is that much longer: to ask takes time away from what is waited for
LONGEST_PAUSE_SECONDS = 0.2  # a pause is never longer than a sixth of the wait so far
ASKING_SHARE = 6  # a pause is that many times as long as it takes to ask, but not for long
MOST_FOR_ASKING_SECONDS = 0.5


def wait_for(
    condition: Callable[[], object],
    seconds: float = 60.0,
    first_pause_seconds: float = 0.002,
    what: str = "it",
) -> None:
    """Ask again until it holds; that it never does is a failure."""
    began, pause = time.monotonic(), first_pause_seconds
    asked = began
    while not condition():
        now = time.monotonic()
        assert now < began + seconds, f"{what} never came"
        time.sleep(max(pause, min(ASKING_SHARE * (now - asked), MOST_FOR_ASKING_SECONDS)))
        asked = time.monotonic()
        pause = max(pause, min(pause * PATIENCE, LONGEST_PAUSE_SECONDS))


def retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again within moments instead of seconds."""
    monkeypatch.setattr(
        "andon.failures.rules.backoff.doubled_seconds",
        lambda times, first, most: 0.02 * (times + 1),
    )
