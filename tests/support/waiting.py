"""Waiting for what another thread or process is sure to do."""

import time
from collections.abc import Callable

import pytest

PATIENCE = 1.2  # each pause is that much longer: to ask takes time away from what is waited for
LONGEST_PAUSE_SECONDS = 0.05


def wait_for(
    condition: Callable[[], object], seconds: float = 60.0, first_pause_seconds: float = 0.002
) -> None:
    """Ask again until it holds; that it never does is a failure. Pause longer from the first where
    asking starts a process."""
    end, pause = time.monotonic() + seconds, first_pause_seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(pause)
        pause = max(pause, min(pause * PATIENCE, LONGEST_PAUSE_SECONDS))


def retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again within moments instead of seconds."""
    monkeypatch.setattr(
        "andon.failures.rules.backoff.doubled_seconds",
        lambda times, first, most: 0.02 * (times + 1),
    )
