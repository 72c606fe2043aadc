"""For a program's own loops: callbacks on alerts, and loops that pause."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from andon.callbacks.cord import Cord, on_alert
    from andon.callbacks.guard import Guard, guarded
    from andon.callbacks.monitor import GpuMonitorCallback

__all__ = ["Cord", "GpuMonitorCallback", "Guard", "guarded", "on_alert"]


def __getattr__(name: str) -> object:
    """The same names as of `andon`, imported when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module 'andon.callbacks' has no attribute {name!r}")
    import andon

    return getattr(andon, name)


def __dir__() -> list[str]:
    return sorted(__all__)
