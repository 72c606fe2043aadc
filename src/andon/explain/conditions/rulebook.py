"""Which conditions exist and hold at which thresholds, without loading them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from operator import contains, ge, le, lt
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from andon.explain.conditions.index import FIGURES, PLACES, POSSIBLE, PRESENT
from andon.model.device import Device, DeviceStatus
from andon.model.naming import device_labels, may_mean, recorded_label
from andon.model.thresholds import NOTHING_OFF, Thresholds

if TYPE_CHECKING:
    from andon.explain.conditions.condition import Condition


# Conditions by name, each loaded when it is needed, and their thresholds without loading any.
#
# What is known of a condition that is not loaded comes from `index`, which is made from the files
# of the conditions. `catalogue` loads all of them.

DEFAULTS = Thresholds(FIGURES)


class _ByName(Mapping[str, "Condition"]):
    """Every condition by its name; its module is imported on first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, Condition] = {}

    def __getitem__(self, name: str) -> "Condition":
        found = self._loaded.get(name)
        if found is None:
            module = import_module(f"{__package__}.{PLACES[name]}")
            found = self._loaded[name] = module.CONDITION
        return found

    def __contains__(self, name: object) -> bool:
        return name in PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


BY_NAME: Mapping[str, "Condition"] = _ByName()


def thresholds(off: frozenset[str] = NOTHING_OFF, **figures: float) -> Thresholds:
    """Returns the default thresholds with these figures replaced."""
    if unknown := figures.keys() - FIGURES.keys():
        raise TypeError(f"there is no figure {', '.join(sorted(unknown))}")
    return DEFAULTS.changed(figures, off)


SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {">=": ge, "<=": le, "<": lt, "has": contains}


def may_light(status: DeviceStatus, figures: Thresholds) -> Iterator[str]:
    """Yields the names of the conditions that a single reading of a device may show."""
    return (name for name in POSSIBLE if _may(name, status, figures))


def may_be_present(status: DeviceStatus) -> Iterator["Condition"]:
    """Yields the conditions that may light its lamp while a reading shows them."""
    return (BY_NAME[name] for name in PRESENT if _may(name, status, DEFAULTS))


def _may(name: str, status: DeviceStatus, figures: Thresholds) -> bool:
    return all(
        any(_is_so(test, status, figures) for test in one_of.split(" or "))
        for one_of in POSSIBLE[name]
    )


def _is_so(test: str, status: DeviceStatus, figures: Thresholds) -> bool:
    """Whether a value of a device is known and satisfies the comparison with its bound."""
    name, sign, least = test.split()
    of = status if hasattr(DeviceStatus, name) else status.sample if status.answered else None
    value: Any = getattr(of, name, None)
    bound: Any = getattr(figures, least, getattr(status.device.limits, least, least))
    if value is None or bound is None:
        return False
    return SIGNS[sign](value, float(bound) if least[0].isdigit() else bound)


MOST_DEVICES = 4096
RENOTIFY_SECONDS = 14_400.0


class Override(Struct, frozen=True):
    """Different thresholds for one device, by its name, or for every device of a model."""

    device: str | int | None = None
    model: str | None = None  # part of its name, case-insensitive
    figures: Mapping[str, float] = field(default_factory=dict)
    off: frozenset[str] = frozenset()

    @property
    def place(self) -> str:
        """The table of the settings: `[[alerts.override]] device = 3`."""
        by, value = ("model", self.model) if self.device is None else ("device", self.device)
        quoted = value if isinstance(value, int) else f'"{value}"'
        return f"[[alerts.override]] {by} = {quoted}"

    def fits(self, device: Device, label: str) -> bool:
        """Whether it applies to this device; one for a board applies to its partitions."""
        if self.device is not None:
            return may_mean(str(self.device), device.uuid, label, device.pci)
        return self.model is not None and self.model.lower() in device.name.lower()


class Rulebook:
    """The thresholds in force. An override for the device beats one for its model."""

    def __init__(
        self,
        thresholds: Thresholds | None = None,
        overrides: Iterable[Override] = (),
        renotify_seconds: float = RENOTIFY_SECONDS,
    ) -> None:
        self.thresholds = thresholds or DEFAULTS
        self.overrides = tuple(overrides)
        self.renotify_seconds = renotify_seconds  # 0: no reminders
        self.turns_off = bool(self.thresholds.off) or any(one.off for one in self.overrides)
        self._cached: dict[str, tuple[Device, Thresholds]] = {}
        self._labels: dict[str, str] = {}
        self._has_names = any(one.device is not None for one in self.overrides)

    def learn_labels(self, statuses: Iterable[DeviceStatus]) -> None:
        """Sets the devices' labels: a partition's label follows from the whole list."""
        if self._has_names and (labels := device_labels(statuses)) != self._labels:
            self._labels = labels
            self._cached.clear()

    def for_device(self, device: Device) -> Thresholds:
        """The thresholds for one device; needed for every device and sample, so they are cached."""
        cached = self._cached.get(device.uuid)
        if cached is not None and cached[0] is device:
            return cached[1]
        if len(self._cached) >= MOST_DEVICES:
            self._cached.clear()
        same = cached is not None and cached[0] == device
        found = cached[1] if cached is not None and same else self._resolved(device)
        self._cached[device.uuid] = (device, found)
        return found

    def overrides_for(self, device: Device) -> list[Override]:
        """Returns the overrides that apply to a device; a later one beats those before it."""
        label = self._labels.get(device.uuid) or recorded_label(device)
        fitting = [override for override in self.overrides if override.fits(device, label)]
        return sorted(fitting, key=lambda one: one.device is not None)

    def _resolved(self, device: Device) -> Thresholds:
        found = self.thresholds
        for override in self.overrides_for(device):
            found = found.changed(override.figures, override.off)
        return found
