"""Waiting for what another thread or process is sure to do."""

import time
from collections.abc import Callable

import pytest

PATIENCE = 1.2  # each pause is that much longer: to ask takes time away from what is waited for
LONGEST_PAUSE_SECONDS = 0.05


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Ask again until it holds; that it never does is a failure."""
    end, pause = time.monotonic() + seconds, 0.002
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(pause)
        pause = min(pause * PATIENCE, LONGEST_PAUSE_SECONDS)


def retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again within moments instead of seconds."""
    monkeypatch.setattr(
        "andon.core.retrying.doubled_seconds", lambda times, first, most: 0.02 * (times + 1)
    )
