"""Waiting for what another thread or process is sure to do."""

import time
from collections.abc import Callable

import pytest


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Ask again until it holds; that it never does is a failure."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)


def retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again within moments instead of seconds."""
    monkeypatch.setattr(
        "andon.core.retrying.doubled_seconds", lambda times, first, most: 0.02 * (times + 1)
    )
