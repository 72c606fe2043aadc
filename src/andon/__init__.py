"""andon watches, explains, shares and records GPUs."""

from andon.version import __version__

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than many commands
if TYPE_CHECKING:
    from andon.api import ray
    from andon.api.benchmark import run_benchmark_job
    from andon.api.check import check
    from andon.api.compat.alerts import (
        AlertConfig,
        AndonSystem,
        GpuAlert,
        GpuIdle,
        MemoryPressure,
        PowerLimit,
        ThermalThrottling,
    )
    from andon.api.compat.clusters import deploy, get_cluster_gpu_status, select_best_node
    from andon.api.compat.estimates import estimate_gpu_requirements
    from andon.api.compat.exporter import PrometheusExporter
    from andon.api.compat.metrics import GpuMetrics
    from andon.api.compat.monitor import (
        GPUInfo,
        GPUMonitor,
        GpuMonitor,
        GPUSnapshot,
        MonitoringSession,
        get_gpu_monitor,
    )
    from andon.api.compat.selection import (
        check_gpu_availability,
        select_gpus_for_task,
        wait_for_gpu_availability,
    )
    from andon.api.lease import Held, lease
    from andon.api.map import map  # noqa: A004 - a name of the API
    from andon.api.probe import probe
    from andon.api.recorded import recorded
    from andon.api.reserve import Reserved, reservations, reserve
    from andon.api.run import RecordedRun, log, run
    from andon.api.submit import submit
    from andon.api.watch import snapshot, watch
    from andon.callbacks.cord import Cord, on_alert
    from andon.callbacks.guard import Guard, guarded
    from andon.callbacks.monitor import GpuMonitorCallback
    from andon.history.rules.sparkline import sparkline
    from andon.model.alert import Alert
    from andon.model.device import Device, DeviceStatus, Process, Sample, Snapshot
    from andon.model.probe import ProbeResult, Trial
    from andon.sampling.bus import Subscription
    from andon.testing.mock import MockGpuBackend

_WHERE = {
    "Alert": "andon.model.alert",
    "AlertConfig": "andon.api.compat.alerts",
    "AndonSystem": "andon.api.compat.alerts",
    "Cord": "andon.callbacks.cord",
    "Device": "andon.model.device",
    "DeviceStatus": "andon.model.device",
    "GPUInfo": "andon.api.compat.monitor",
    "GPUMonitor": "andon.api.compat.monitor",
    "GPUSnapshot": "andon.api.compat.monitor",
    "GpuAlert": "andon.api.compat.alerts",
    "GpuIdle": "andon.api.compat.alerts",
    "GpuMetrics": "andon.api.compat.metrics",
    "GpuMonitor": "andon.api.compat.monitor",
    "GpuMonitorCallback": "andon.callbacks.monitor",
    "Guard": "andon.callbacks.guard",
    "Held": "andon.api.lease",
    "MemoryPressure": "andon.api.compat.alerts",
    "MockGpuBackend": "andon.testing.mock",
    "MonitoringSession": "andon.api.compat.monitor",
    "PowerLimit": "andon.api.compat.alerts",
    "Process": "andon.model.device",
    "ProbeResult": "andon.model.probe",
    "PrometheusExporter": "andon.api.compat.exporter",
    "RecordedRun": "andon.api.run",
    "Reserved": "andon.api.reserve",
    "Sample": "andon.model.device",
    "Snapshot": "andon.model.device",
    "Subscription": "andon.sampling.bus",
    "ThermalThrottling": "andon.api.compat.alerts",
    "Trial": "andon.model.probe",
    "check": "andon.api.check",
    "check_gpu_availability": "andon.api.compat.selection",
    "deploy": "andon.api.compat.clusters",
    "estimate_gpu_requirements": "andon.api.compat.estimates",
    "get_cluster_gpu_status": "andon.api.compat.clusters",
    "get_gpu_monitor": "andon.api.compat.monitor",
    "guarded": "andon.callbacks.guard",
    "lease": "andon.api.lease",
    "load_ipython_extension": "andon.cli.notebook.extension",  # for %load_ext andon
    "log": "andon.api.run",
    "map": "andon.api.map",
    "on_alert": "andon.callbacks.cord",
    "probe": "andon.api.probe",
    "ray": "andon.api.ray",
    "recorded": "andon.api.recorded",
    "reservations": "andon.api.reserve",
    "reserve": "andon.api.reserve",
    "run": "andon.api.run",
    "run_benchmark_job": "andon.api.benchmark",
    "select_best_node": "andon.api.compat.clusters",
    "select_gpus_for_task": "andon.api.compat.selection",
    "snapshot": "andon.api.watch",
    "sparkline": "andon.history.rules.sparkline",
    "submit": "andon.api.submit",
    "wait_for_gpu_availability": "andon.api.compat.selection",
    "watch": "andon.api.watch",
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
    "Reserved",
    "Sample",
    "Snapshot",
    "Subscription",
    "ThermalThrottling",
    "Trial",
    "__version__",
    "check",
    "check_gpu_availability",
    "deploy",
    "estimate_gpu_requirements",
    "get_cluster_gpu_status",
    "get_gpu_monitor",
    "guarded",
    "lease",
    "log",
    "map",
    "on_alert",
    "probe",
    "ray",
    "recorded",
    "reservations",
    "reserve",
    "run",
    "run_benchmark_job",
    "select_best_node",
    "select_gpus_for_task",
    "snapshot",
    "sparkline",
    "submit",
    "wait_for_gpu_availability",
    "watch",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import andon` itself stays light."""
    if name not in _WHERE:
        raise AttributeError(f"module 'andon' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_WHERE[name])
    value = getattr(module, name, module)  # `ray` is a module itself
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
