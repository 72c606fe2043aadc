"""Clocks that a test moves."""

from collections.abc import Callable


class Clock:
    """Time that moves when a test says so, and a sleep during which something can happen."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        self.meanwhile()
