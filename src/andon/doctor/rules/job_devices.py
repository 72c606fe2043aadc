"""Whether the devices that a cluster gave to a job are fit for it, before and after it runs."""

import re
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from andon.events.rules.reports import on_device
from andon.events.rules.xids import explain_event
from andon.explain.evidence.blame import in_job, program, slurm_job
from andon.leases.rules.capacity import Surroundings, capacities
from andon.leases.rules.eligibility import ObstacleKind
from andon.model.alert import Level
from andon.model.device import DeviceStatus, Process, State
from andon.model.event import Event
from andon.model.naming import titles
from andon.units import and_more, human_bytes

UNFIT = (ObstacleKind.LOST, ObstacleKind.BROKEN, ObstacleKind.ECC)
PASSING = (ObstacleKind.UNATTRIBUTED_MEMORY, ObstacleKind.UNLEASED_PROCESS)
"""Faults that may pass: a driver frees memory a moment after a process has ended."""


class Unfit(Struct, frozen=True):
    """A device that a job should not have, and why."""

    uuid: str
    kind: ObstacleKind
    message: str  # "GPU 2 reports Xid 79: …"
    jobs: tuple[str, ...] = ()  # the cluster's jobs whose processes are on it

    @property
    def passing(self) -> bool:
        return self.kind in PASSING


def given_devices(
    numbers: str, statuses: Sequence[DeviceStatus], minors: Mapping[str, int]
) -> list[DeviceStatus]:
    """Returns the devices in `0,2-3`, by the numbers of their device files, which `minors` has by
    PCI address if the driver reports them, else by index. Unknown ones are left out."""
    wanted = set[int]()
    for part in numbers.split(","):
        if found := re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip()):
            wanted |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    boards = [status for status in statuses if status.device.parent is None]
    return [one for one in boards if _number(one, minors) in wanted]


def unclear_numbers(given: Sequence[DeviceStatus], every: Sequence[DeviceStatus]) -> str | None:
    """Returns why it is not certain that Slurm's numbers mean these devices; None if it is. Slurm
    numbers GPUs in the order of their types in the node's Gres= line, and may count partitions."""
    boards = [status for status in every if status.device.parent is None]
    if len(given) == len(boards):
        return None
    models = dict.fromkeys(one.device.name for one in boards if one.state is not State.LOST)
    if len(models) > 1:
        return f"this node has {' and '.join(models)}, which Slurm may number in another order"
    if len(boards) < len(every):
        return "this node has partitioned GPUs, which Slurm may number in another way"
    return None


def _number(status: DeviceStatus, minors: Mapping[str, int]) -> int:
    pci = (status.device.pci or "").lower()
    return next((n for one, n in minors.items() if pci.endswith(one[-10:])), status.device.index)


def broken_by_events(
    events: Sequence[tuple[int, Event]],
    statuses: Sequence[DeviceStatus],
    reported: Mapping[str, int],
) -> dict[str, tuple[int, str]]:
    """Returns the last error of each device that means it is broken, with its number in the log;
    `reported` has the numbers that were reported before."""
    devices, found = [status.device for status in statuses], dict[str, tuple[int, str]]()
    for number, event in events:
        uuid, meant = on_device(event, devices).uuid, explain_event(event)
        if uuid is not None and meant.level is Level.CRITICAL and number > reported.get(uuid, -1):
            name = "an error" if event.code is None else f"Xid {event.code}"
            found[uuid] = number, f"reports {name}: {meant.meaning}"
    return found


def unfit_devices(
    given: Sequence[DeviceStatus],
    every: Sequence[DeviceStatus],
    broken: Mapping[str, str],
    job: str,
    running: Collection[str] = (),
) -> list[Unfit]:
    """Returns the devices that `job` should not have, the worst first. Processes of the job itself
    and of jobs that the cluster still runs there may be on it."""
    names, found = titles(every), list[Unfit]()
    for one in capacities(given, Surroundings(broken=broken)):
        it, trouble = names[one.uuid], one.trouble
        if trouble is not None and trouble.kind in UNFIT:
            colon = "" if trouble.kind is ObstacleKind.BROKEN else ":"
            message = f"{it}{colon} {trouble.reason}"
            found.append(Unfit(one.uuid, trouble.kind, message))
            continue
        allowed = {job, *running}
        left = [p for p in one.strangers if slurm_job(p) not in allowed and not _serves(p)]
        if left:
            jobs = tuple(dict.fromkeys(number for p in left if (number := slurm_job(p))))
            message = f"{it} is in use by {_named(left)}"
            found.append(Unfit(one.uuid, ObstacleKind.UNLEASED_PROCESS, message, jobs))
        elif trouble is not None and trouble.kind in PASSING and not one.strangers:
            found.append(Unfit(one.uuid, trouble.kind, f"{it}: {trouble.reason}"))
    order = (*UNFIT, *reversed(PASSING))
    return sorted(found, key=lambda unfit: order.index(unfit.kind))


def _serves(process: Process) -> bool:
    """Whether it is the MPS service, which shares the device between programs."""
    return (process.name or "").startswith("nvidia-cuda-mps")


def _named(left: Sequence[Process]) -> str:
    first, more = left[0], and_more(len(left) - 1)
    about = ", ".join(filter(None, (first.user, program(first), in_job(first))))
    size = "" if first.memory_bytes is None else f", {human_bytes(first.memory_bytes)}"
    return f"pid {first.pid} ({about}){size}{more}"
