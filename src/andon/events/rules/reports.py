"""Deduplicates the event reports of devices, and adds the device and the running processes."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from andon.model.device import Device, Process, party
from andon.model.event import Event

SAME_SECONDS: Final = 5.0
"""The driver's queue and the kernel log both report an Xid, and a bad one repeats."""

Key = tuple[str | None, str, int | None]


class Reports(Struct):
    """Recently reported events; `now` is an argument and monotonic."""

    seen: dict[Key, float] = field(default_factory=dict)

    def new(self, reports: Iterable[Event], now: float) -> tuple[Event, ...]:
        """Returns the new reports; of several about one event, the most detailed."""
        self.seen = {key: at for key, at in self.seen.items() if now - at < SAME_SECONDS}
        found = []
        for report in sorted(reports, key=_detail_order):
            key = (report.uuid or report.pci, report.kind, report.code)
            if key not in self.seen:
                self.seen[key] = now
                found.append(report)
        return tuple(sorted(found, key=lambda event: event.at))


def on_device(report: Event, devices: Sequence[Device]) -> Event:
    """Returns the report with its device's uuid, if it only has a PCI address."""
    if report.uuid is not None or report.pci is None:
        return report
    boards = (d for d in devices if d.parent is None and d.pci and _same_slot(d.pci, report.pci))
    board = next(boards, None)
    return report if board is None else replace(report, uuid=board.uuid)


def with_parties(report: Event, processes: Iterable[Process]) -> Event:
    """Returns the report with the device's processes: those it names, then the others."""
    ran = {process.pid: party(process) for process in processes}
    named = [ran.pop(known.pid, known) for known in report.who]
    return replace(report, who=(*named, *ran.values()))


def _detail_order(report: Event) -> int:
    return -len(report.pids) - len(report.detail)


def _same_slot(pci: str, named: str) -> bool:
    """Whether two addresses are the same slot: they differ in the digits of the domain, and logs
    omit the function."""
    return _slot(pci) == _slot(named)


def _slot(pci: str) -> tuple[int, str, str] | None:
    domain, _, rest = pci.lower().partition(":")
    bus, _, device = rest.partition(":")
    try:
        return int(domain, 16), bus, device.split(".")[0]
    except ValueError:
        return None
