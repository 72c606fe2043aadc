"""Callbacks on alerts and pausing loops, for a program's own training loops."""

from typing import TYPE_CHECKING

import andon

if TYPE_CHECKING:
    from andon.callbacks.cord import Cord, on_alert
    from andon.callbacks.guard import Guard, guarded
    from andon.callbacks.monitor import GpuMonitorCallback

__all__ = ["Cord", "GpuMonitorCallback", "Guard", "guarded", "on_alert"]


def __getattr__(name: str) -> object:
    """Imports the same names as `andon` has when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module 'andon.callbacks' has no attribute {name!r}")

    return getattr(andon, name)


def __dir__() -> list[str]:
    return sorted(__all__)
