"""The one line of `andon prompt`: what is free, what is held by this user, and the next job."""

from typing import Any

from msgspec import Struct

from andon.model.codec import Amount, Count, Name, Names, Time, Whole
from andon.model.naming import range_of
from andon.units import counted, fixed, human_seconds

MOST_NAMED = 4  # devices whose numbers are shown
OLDEST_SECONDS = 86_400.0  # older than that says nothing about now
SIMULATED = "SIM-"  # how the UUIDs of simulated devices begin


class HeldShare(Struct, frozen=True):
    """A device of a lease."""

    uuid: Name


class PromptLease(Struct, frozen=True):
    """What the line needs of a lease."""

    uid: Whole | None
    devices: tuple[HeldShare, ...]
    utilization_percent: Amount | None = None


class ShownDevice(Struct, frozen=True):
    """What the line needs of a device."""

    uuid: Name
    label: Name
    kind: Name


class SharedDevices(Struct, frozen=True):
    """The part of `andon.leases/1` that the line needs."""

    at: Time
    devices: tuple[ShownDevice, ...] = ()
    leases: tuple[PromptLease, ...] = ()


class PromptFacts(Struct, frozen=True):
    """What the line shows, and when that was so."""

    at: Time
    gpus: Count
    free: Names
    yours: Names
    busy_percent: Amount | None = None
    job: Count | None = None  # that starts next
    starts_at: Time | None = None
    simulated: bool = False

    @property
    def text(self) -> str:
        """Returns `GPU 1 free · yours: 2 (87 %)`; what is not known is left out."""
        if not self.gpus:
            return ""
        parts = [_devices(self.free, "free", "no GPU free")]
        if self.yours:
            busy = "" if self.busy_percent is None else f" ({fixed(self.busy_percent)} %)"
            parts.append(f"yours: {range_of(self.yours)}{busy}")
        return "SIMULATED " * self.simulated + " · ".join(parts)

    def line(self, now: float, stored: bool) -> str:
        """Returns the line; empty if there is no GPU, or what was `stored` is too old to show."""
        age = max(0.0, now - self.at)
        if not self.text or age > OLDEST_SECONDS:
            return ""
        coming = ""
        if self.job is not None and self.starts_at is not None:
            left = self.starts_at - now
            coming = f" · job {self.job} " + (f"in {human_seconds(left)}" if left >= 1 else "next")
        return self.text + coming + (f" ({human_seconds(age)} ago)" if stored else "")

    def bar(self, now: float, stored: bool) -> dict[str, Any]:
        """Returns the JSON of a bar: `text`, `tooltip` and `class` are what waybar reads."""
        line = self.line(now, stored)
        kind = "old" if stored else "yours" if self.yours else "free" if self.free else "busy"
        return {
            "text": line,
            "tooltip": f"{len(self.free)} of {counted(self.gpus, 'GPU')} free",
            "class": kind if line else "none",
            "percentage": None if self.busy_percent is None else round(self.busy_percent),
            "free": self.free,
            "yours": self.yours,
            "job": self.job,
            "starts_at": self.starts_at,
            "at": self.at,
        }


def prompt_facts(
    found: SharedDevices, uid: int, job: int | None = None, starts_at: float | None = None
) -> PromptFacts:
    """Returns what the line shows of a list of leases, for this user."""
    own = [lease for lease in found.leases if lease.uid == uid]
    mine = {share.uuid for lease in own for share in lease.devices}
    known = [one.utilization_percent for one in own if one.utilization_percent is not None]
    return PromptFacts(
        found.at,
        len(found.devices),
        tuple(one.label for one in found.devices if one.kind == "free"),
        tuple(one.label for one in found.devices if one.uuid in mine),
        sum(known) / len(known) if known else None,
        job,
        starts_at,
        any(one.uuid.startswith(SIMULATED) for one in found.devices),
    )


def _devices(labels: Names, what: str, none: str) -> str:
    if len(labels) > MOST_NAMED:
        return f"{len(labels)} GPUs {what}"
    return f"GPU {range_of(labels)} {what}" if labels else none
