"""The thresholds of conditions: their defaults and meaning, and those in force."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

NOTHING_OFF: frozenset[str] = frozenset()


class Figure(Struct, frozen=True):
    """A number of a condition that people may set."""

    name: str  # ends with its unit: thermal_celsius
    default: float
    help: str
    low: float
    high: float
    switch: bool = False  # "off" in its place turns the condition off

    @property
    def unit(self) -> str:
        return self.name.rpartition("_")[2]


class Thresholds:
    """The figures in force for a device, as attributes, and the conditions that are off.

    Its attributes are the figures of the catalogue: see `explain/conditions/catalogue`.
    """

    __slots__ = ("__dict__", "off")
    off: frozenset[str]

    def __init__(self, figures: Mapping[str, float], off: frozenset[str] = NOTHING_OFF) -> None:
        self.__dict__.update(figures)
        self.off = off

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> float: ...

    def changed(
        self, figures: Mapping[str, float], off: frozenset[str] = NOTHING_OFF
    ) -> "Thresholds":
        """Returns thresholds with these figures replaced and these conditions off, too."""
        return Thresholds({**self.__dict__, **figures}, self.off | off)

    def as_dict(self) -> dict[str, float]:
        return dict(self.__dict__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Thresholds):
            return NotImplemented
        return self.__dict__ == other.__dict__ and self.off == other.off

    def __hash__(self) -> int:
        return hash((tuple(self.__dict__.items()), self.off))

    def __repr__(self) -> str:
        return f"Thresholds({self.__dict__!r}, off={set(self.off)!r})"
