"""The sampler for the settings: this node, a simulation or a recording."""

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.drivers.shared.presence import has_nvidia_smi, unreadable, vendors
from andon.events.kernel_log import KernelLog
from andon.host.files import expanded
from andon.host.machine_id import boot_id, node_name
from andon.host.state.user_folder import CHECKS, node_path
from andon.host.system import System
from andon.model.device import Device, DeviceStatus, DriverVersions, LastCheck, Snapshot
from andon.registry import BACKENDS, is_known, unknown
from andon.sampling.readers import encoded
from andon.sampling.rules.masks import VARIABLES, Visibility, visibility
from andon.sampling.rules.readings import checked_host
from andon.sampling.rules.roster import BackendChoice
from andon.sampling.sampler import NodeIdentity, Sampler
from andon.sampling.spawning import decide_ahead
from andon.settings.resolution import Settings

if TYPE_CHECKING:
    from andon.checks.store import RecentChecks
    from andon.ports import HostSource

CHECKS_SECONDS = 10.0  # between two looks at the files of checks
SMI_DEADLINES = 5.0  # the command takes up to a second for eight devices


def open_sampler(
    settings: Settings,
    masks_may_change: bool = False,
    origin: float | None = None,
    host: "HostSource | None" = None,
) -> Sampler:
    """A sampler for what the settings name: this node, a simulation or a recording.

    In another program, the variables that hide devices may change at any time. `origin` is second
    zero of a simulation, by default now; `host` gives a simulated machine's own values.
    """
    if settings.replay:
        return _replay(settings)
    root = Path(settings.root)
    sampler = Sampler(
        vendors=_vendors(settings, root, origin),
        host=host or System(root, drivers=None if settings.simulate else partial(_drivers, root)),
        node=NodeIdentity(settings.node or node_name(), boot_id(root)),
        visibility=_VisibleDevices(masks_may_change),
        deadline_seconds=settings.deadline_seconds,
        constant_faults=() if settings.simulate else unreadable(),
        kernel_log=None if settings.simulate else KernelLog(root),
    )
    if not settings.simulate:
        sampler.mark_by(_CheckMarks())
    return sampler


def open_ahead(settings: Settings) -> None:
    """Let the reader that was started in advance open the driver, before a sampler needs it."""
    if settings.simulate or settings.replay:
        return
    for choices in _vendors(settings, Path(settings.root)).values():
        decide_ahead(choices[0].backend, encoded(choices[0].options))
        return


def with_driver_versions(snapshot: Snapshot, settings: Settings) -> Snapshot:
    """Adds the driver versions to a single sample of this node: a sampler reads them later."""
    if settings.simulate or settings.replay or snapshot.host.drivers is not None:
        return snapshot
    return replace(snapshot, host=replace(snapshot.host, drivers=_drivers(Path(settings.root))))


def _drivers(root: Path) -> tuple[DriverVersions, ...]:
    from andon.host.driver_versions import driver_versions

    return driver_versions(root)


def _vendors(
    settings: Settings, root: Path, origin: float | None = None
) -> dict[str, tuple[BackendChoice, ...]]:
    if settings.simulate:
        return {"sim": (BackendChoice("sim", _simulation(settings, origin)),)}
    names = vendors(root) if "auto" in settings.backends else settings.backends
    missing = [name for name in names if not is_known(BACKENDS, name)]
    if missing:
        raise unknown(BACKENDS, *missing, also="auto")
    return {name: _choices(name, settings) for name in names}


def _choices(name: str, settings: Settings) -> tuple[BackendChoice, ...]:
    """Returns the backends of a vendor; nvidia-smi is the fallback if NVIDIA's library cannot be
    loaded: slower, often installed."""
    options = {} if name == "sim" else {"root": settings.root}
    first = BackendChoice(name, options, SMI_DEADLINES if name == "nvidia_smi" else 1.0)
    if name == "nvidia" and has_nvidia_smi():
        return first, BackendChoice("nvidia_smi", options, SMI_DEADLINES)
    return (first,)


def _replay(settings: Settings) -> Sampler:
    """Returns a sampler of the recorded node: its values and name, and none of our masks."""
    from andon.drivers.replay import RecordedHost

    played: dict[str, object] = {
        "path": str(expanded(settings.replay).absolute()),
        "speed": settings.replay_speed,
        "loop": settings.replay_loop,
        "origin": time.time(),
    }
    host = RecordedHost(**played, checked=checked_host)  # type: ignore[arg-type]
    # Recorded pids must not be looked up on this system, so the root does not exist.
    nowhere = {**played, "root": "/nonexistent"}
    return Sampler(
        vendors={"replay": (BackendChoice("replay", nowhere),)},
        host=host,
        node=NodeIdentity(host.first.node, host.first.boot),
        visibility=lambda devices: visibility(devices, {}),
        deadline_seconds=settings.deadline_seconds,
    )


def _simulation(settings: Settings, origin: float | None) -> dict[str, object]:
    """Checks the simulation here, so that a mistake is reported to the caller."""
    from andon.drivers.sim.rules.scenarios import plan

    plan(settings.simulate, settings.simulate_scenario, (), settings.simulate_faults)
    return {
        "count": settings.simulate,
        "seed": settings.simulate_seed,
        "scenario": settings.simulate_scenario,
        "faults": settings.simulate_faults,
        "origin": time.time() if origin is None else origin,
    }


class _VisibleDevices:
    """Which devices this process's masks show: called for every sample, rarely different."""

    def __init__(self, may_change: bool) -> None:
        self._of: tuple[list[Device], dict[str, str]] | None = None
        self._found = visibility((), {})
        self._masks = None if may_change else _masks()

    def __call__(self, devices: Sequence[Device]) -> Visibility:
        masks = _masks() if self._masks is None else self._masks
        key = list(devices), masks
        if key != self._of:  # mostly the same objects, so this is cheap
            self._of, self._found = key, visibility(devices, masks)
        return self._found


def _masks() -> dict[str, str]:
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


class _CheckMarks:
    """Adds the latest check of each device; cheap where nothing was ever checked."""

    def __init__(self) -> None:
        self._due = 0.0
        self._known: Mapping[str, LastCheck] = {}
        self._recent: RecentChecks | None = None

    def __call__(self, statuses: tuple[DeviceStatus, ...]) -> tuple[DeviceStatus, ...]:
        if time.monotonic() >= self._due:
            self._due, self._known = time.monotonic() + CHECKS_SECONDS, self._latest()
        if not self._known:
            return statuses
        return tuple(
            one
            if (found := self._known.get(one.device.uuid)) is None
            else replace(one, check=found)
            for one in statuses
        )

    def _latest(self) -> dict[str, LastCheck]:
        if not (node_path() / CHECKS).is_dir():
            return {}
        from andon.checks.store import RecentChecks  # only where something was checked

        self._recent = self._recent or RecentChecks()
        found = self._recent.latest()
        return {uuid: LastCheck(one.at, str(one.verdict), one.text) for uuid, one in found.items()}
