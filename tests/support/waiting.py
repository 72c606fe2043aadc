"""Waiting for what another thread or process is sure to do."""

import time
from collections.abc import Callable

import pytest


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Ask again until it holds; that it never does is a failure."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)


def retry_soon(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """In these modules, what failed is tried again within moments instead of seconds."""
    for module in modules:
        monkeypatch.setattr(f"{module}.back_off_seconds", lambda failures: 0.02 * max(0, failures))
