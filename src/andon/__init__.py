"""andon watches, explains, shares and records GPUs."""

from importlib import import_module
from typing import TYPE_CHECKING

from andon.version import __version__

if TYPE_CHECKING:
    from andon.compat.exporter import PrometheusExporter
    from andon.compat.metrics import GpuMetrics
    from andon.compat.monitor import (
        GPUInfo,
        GPUMonitor,
        GPUSnapshot,
        MonitoringSession,
        get_gpu_monitor,
    )
    from andon.core.sparkline import sparkline
    from andon.engine.bus import Subscription
    from andon.library import snapshot, watch
    from andon.model.device import Device, DeviceStatus, Process, Sample, Snapshot
    from andon.testing.mock import MockGpuBackend

_WHERE = {
    "Device": "andon.model.device",
    "DeviceStatus": "andon.model.device",
    "GPUInfo": "andon.compat.monitor",
    "GPUMonitor": "andon.compat.monitor",
    "GPUSnapshot": "andon.compat.monitor",
    "GpuMetrics": "andon.compat.metrics",
    "MockGpuBackend": "andon.testing.mock",
    "MonitoringSession": "andon.compat.monitor",
    "Process": "andon.model.device",
    "PrometheusExporter": "andon.compat.exporter",
    "Sample": "andon.model.device",
    "Snapshot": "andon.model.device",
    "Subscription": "andon.engine.bus",
    "get_gpu_monitor": "andon.compat.monitor",
    "snapshot": "andon.library",
    "sparkline": "andon.core.sparkline",
    "watch": "andon.library",
}

__all__ = [
    "Device",
    "DeviceStatus",
    "GPUInfo",
    "GPUMonitor",
    "GPUSnapshot",
    "GpuMetrics",
    "MockGpuBackend",
    "MonitoringSession",
    "Process",
    "PrometheusExporter",
    "Sample",
    "Snapshot",
    "Subscription",
    "__version__",
    "get_gpu_monitor",
    "snapshot",
    "sparkline",
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
