"""andon watches, explains, shares and records GPUs."""

import sys
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING

from andon.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from andon.callbacks.cord import Cord, on_alert
    from andon.callbacks.guard import Guard, guarded
    from andon.callbacks.monitor import GpuMonitorCallback
    from andon.compat.alerts import (
        AlertConfig,
        AndonSystem,
        GpuAlert,
        GpuIdle,
        MemoryPressure,
        PowerLimit,
        ThermalThrottling,
    )
    from andon.compat.estimates import estimate_gpu_requirements
    from andon.compat.exporter import PrometheusExporter
    from andon.compat.metrics import GpuMetrics
    from andon.compat.monitor import (
        GPUInfo,
        GPUMonitor,
        GpuMonitor,
        GPUSnapshot,
        MonitoringSession,
        get_gpu_monitor,
    )
    from andon.compat.selection import (
        check_gpu_availability,
        select_gpus_for_task,
        wait_for_gpu_availability,
    )
    from andon.core.history.sparkline import sparkline
    from andon.engine.sampling.bus import Subscription
    from andon.leasing import Held, lease
    from andon.library import snapshot, watch
    from andon.mapping import map  # noqa: A004 - a name of the API
    from andon.model.alert import Alert
    from andon.model.device import Device, DeviceStatus, Process, Sample, Snapshot
    from andon.model.probing.probe import ProbeResult, Trial
    from andon.probing import probe
    from andon.recorded_calls import recorded
    from andon.recording import RecordedRun, run
    from andon.testing.mock import MockGpuBackend

_WHERE = {
    "Alert": "andon.model.alert",
    "AlertConfig": "andon.compat.alerts",
    "AndonSystem": "andon.compat.alerts",
    "Cord": "andon.callbacks.cord",
    "Device": "andon.model.device",
    "DeviceStatus": "andon.model.device",
    "GPUInfo": "andon.compat.monitor",
    "GPUMonitor": "andon.compat.monitor",
    "GPUSnapshot": "andon.compat.monitor",
    "GpuAlert": "andon.compat.alerts",
    "GpuIdle": "andon.compat.alerts",
    "GpuMetrics": "andon.compat.metrics",
    "GpuMonitor": "andon.compat.monitor",
    "GpuMonitorCallback": "andon.callbacks.monitor",
    "Guard": "andon.callbacks.guard",
    "Held": "andon.leasing",
    "MemoryPressure": "andon.compat.alerts",
    "MockGpuBackend": "andon.testing.mock",
    "MonitoringSession": "andon.compat.monitor",
    "PowerLimit": "andon.compat.alerts",
    "Process": "andon.model.device",
    "ProbeResult": "andon.model.probing.probe",
    "PrometheusExporter": "andon.compat.exporter",
    "RecordedRun": "andon.recording",
    "Sample": "andon.model.device",
    "Snapshot": "andon.model.device",
    "Subscription": "andon.engine.sampling.bus",
    "ThermalThrottling": "andon.compat.alerts",
    "Trial": "andon.model.probing.probe",
    "check_gpu_availability": "andon.compat.selection",
    "estimate_gpu_requirements": "andon.compat.estimates",
    "get_gpu_monitor": "andon.compat.monitor",
    "guarded": "andon.callbacks.guard",
    "lease": "andon.leasing",
    "map": "andon.mapping",
    "on_alert": "andon.callbacks.cord",
    "probe": "andon.probing",
    "recorded": "andon.recorded_calls",
    "run": "andon.recording",
    "select_gpus_for_task": "andon.compat.selection",
    "snapshot": "andon.library",
    "sparkline": "andon.core.history.sparkline",
    "wait_for_gpu_availability": "andon.compat.selection",
    "watch": "andon.library",
}

__all__ = [
    "Alert",
    "AlertConfig",
    "AndonSystem",
    "Cord",
    "Device",
    "DeviceStatus",
    "GPUInfo",
    "GPUMonitor",
    "GPUSnapshot",
    "GpuAlert",
    "GpuIdle",
    "GpuMetrics",
    "GpuMonitor",
    "GpuMonitorCallback",
    "Guard",
    "Held",
    "MemoryPressure",
    "MockGpuBackend",
    "MonitoringSession",
    "PowerLimit",
    "ProbeResult",
    "Process",
    "PrometheusExporter",
    "RecordedRun",
    "Sample",
    "Snapshot",
    "Subscription",
    "ThermalThrottling",
    "Trial",
    "__version__",
    "check_gpu_availability",
    "estimate_gpu_requirements",
    "get_gpu_monitor",
    "guarded",
    "lease",
    "map",
    "on_alert",
    "probe",
    "recorded",
    "run",
    "select_gpus_for_task",
    "snapshot",
    "sparkline",
    "wait_for_gpu_availability",
    "watch",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import andon` itself stays light."""
    if name not in _WHERE:
        raise AttributeError(f"module 'andon' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _find_old_module(
    name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
) -> "ModuleSpec | None":
    """Finds a module that a running process of an older version starts by its former name.

    Python calls it last, for modules that it does not find."""
    if not name.startswith("andon."):
        return None
    from andon.process import old_module_spec

    return old_module_spec(name)


sys.meta_path.append(SimpleNamespace(find_spec=_find_old_module))
