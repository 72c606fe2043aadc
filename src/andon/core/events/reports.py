"""Which reports of a device's own events are told: each event once, with its device and who ran."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from andon.model.alert import Event, Party
from andon.model.device import Device, Process

SAME_SECONDS: Final = 5.0
"""The driver's queue and the kernel's log both tell of one Xid, and a bad one repeats itself."""

Key = tuple[str | None, str, int | None]


@dataclass(slots=True)
class Reports:
    """What was told lately; `now` is an argument and only moves forward."""

    told: dict[Key, float] = field(default_factory=dict)

    def new(self, reports: Iterable[Event], now: float) -> tuple[Event, ...]:
        """Those that say something new; of several about one event, the one that knows more."""
        self.told = {key: at for key, at in self.told.items() if now - at < SAME_SECONDS}
        found = []
        for report in sorted(reports, key=_detail_order):
            key = (report.uuid or report.pci, report.kind, report.code)
            if key not in self.told:
                self.told[key] = now
                found.append(report)
        return tuple(sorted(found, key=lambda event: event.at))


def on_device(report: Event, devices: Sequence[Device]) -> Event:
    """The report with its device's uuid, where it names only an address."""
    if report.uuid is not None or report.pci is None:
        return report
    boards = (d for d in devices if d.parent is None and d.pci and _same_slot(d.pci, report.pci))
    board = next(boards, None)
    return report if board is None else replace(report, uuid=board.uuid)


def with_parties(report: Event, processes: Iterable[Process]) -> Event:
    """The report with who ran on the device: first whom it names itself, then the others."""
    ran = {process.pid: party(process) for process in processes}
    named = [ran.pop(known.pid, known) for known in report.who]
    return replace(report, who=(*named, *ran.values()))


def party(process: Process) -> Party:
    """As much of a process as an alert shows."""
    return Party(process.pid, process.user, process.name, process.command, process.started)


def _detail_order(report: Event) -> int:
    return -len(report.pids) - len(report.detail)


def _same_slot(pci: str, named: str) -> bool:
    """Addresses differ in how many digits the domain has, and logs leave out the function."""
    return _slot(pci) == _slot(named)


def _slot(pci: str) -> tuple[int, str, str] | None:
    domain, _, rest = pci.lower().partition(":")
    bus, _, device = rest.partition(":")
    try:
        return int(domain, 16), bus, device.split(".")[0]
    except ValueError:
        return None
