"""andon watches, explains, shares and records GPUs."""

from importlib import import_module
from typing import TYPE_CHECKING

from andon.version import __version__

if TYPE_CHECKING:
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
    from andon.model.alert import Alert
    from andon.model.device import Device, DeviceStatus, Process, Sample, Snapshot
    from andon.recording import RecordedRun, recorded, run
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
    "PrometheusExporter": "andon.compat.exporter",
    "RecordedRun": "andon.recording",
    "Sample": "andon.model.device",
    "Snapshot": "andon.model.device",
    "Subscription": "andon.engine.sampling.bus",
    "ThermalThrottling": "andon.compat.alerts",
    "check_gpu_availability": "andon.compat.selection",
    "estimate_gpu_requirements": "andon.compat.estimates",
    "get_gpu_monitor": "andon.compat.monitor",
    "guarded": "andon.callbacks.guard",
    "lease": "andon.leasing",
    "on_alert": "andon.callbacks.cord",
    "recorded": "andon.recording",
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
    "Process",
    "PrometheusExporter",
    "RecordedRun",
    "Sample",
    "Snapshot",
    "Subscription",
    "ThermalThrottling",
    "__version__",
    "check_gpu_availability",
    "estimate_gpu_requirements",
    "get_gpu_monitor",
    "guarded",
    "lease",
    "on_alert",
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
