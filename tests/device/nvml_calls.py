"""Prints NVML's answers to the relevant calls: `python -m tests.device.nvml_calls`.

In a separate process, like every driver call. An error is recorded with its code and text.
"""

import ctypes
import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any

pynvml: Any = importlib.import_module("pynvml")

Call = tuple[str, Callable[[], Any]]

PLAIN = (
    "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetSerial", "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetIndex", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetBrand",
    "nvmlDeviceGetArchitecture", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetBAR1MemoryInfo", "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints", "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetFanSpeed", "nvmlDeviceGetNumFans", "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetSupportedClocksEventReasons",
    "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetEccMode",
    "nvmlDeviceGetRemappedRows", "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetDisplayMode", "nvmlDeviceGetDisplayActive",
    "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlGpmQueryDeviceSupport",
)  # fmt: skip
WITH_NUMBERS = (
    ("nvmlDeviceGetTemperature", (0,)),
    *(("nvmlDeviceGetTemperatureThreshold", (kind,)) for kind in range(4)),
    *(("nvmlDeviceGetClockInfo", (kind,)) for kind in range(4)),
    *(("nvmlDeviceGetMaxClockInfo", (kind,)) for kind in range(4)),
    *(("nvmlDeviceGetTotalEccErrors", (kind, span)) for kind in (0, 1) for span in (0, 1)),
    ("nvmlDeviceGetProcessUtilization", (0,)),
)
FIELDS = (*range(74, 84), 185, 186, 197, 198, 269, 270, 271)
SYSTEM = (
    "nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion", "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlDeviceGetCount",
)  # fmt: skip


def answers() -> dict[str, Any]:
    """Each call with its result, for the first device."""
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return {name: plain(attempt(call)) for name, call in calls(handle)}
    finally:
        pynvml.nvmlShutdown()


def calls(handle: Any) -> Iterator[Call]:
    for name in SYSTEM:
        yield name, _bound(name)
    for name in PLAIN:
        yield name, _bound(name, handle)
    for name, numbers in WITH_NUMBERS:
        yield f"{name}({', '.join(map(str, numbers))})", _bound(name, handle, *numbers)
    version = pynvml.nvmlMemory_v2
    yield "nvmlDeviceGetMemoryInfo_v2", _bound("nvmlDeviceGetMemoryInfo", handle, version)
    for field in FIELDS:
        yield f"field {field}", _bound("nvmlDeviceGetFieldValues", handle, [field])


def _bound(name: str, *arguments: Any) -> Callable[[], Any]:
    return lambda: getattr(pynvml, name)(*arguments)


def attempt(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except pynvml.NVMLError as error:
        return {"error": error.value, "words": str(error)}
    except (AttributeError, TypeError, ValueError) as exc:
        return {"error": None, "words": f"nvidia-ml-py could not ask: {exc}"}


def plain(value: Any) -> Any:
    """ctypes as JSON. A union keeps all its members: the type field says which one is valid."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return {str(field[0]): plain(getattr(value, field[0])) for field in value._fields_}
    if isinstance(value, list | tuple | ctypes.Array):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float) and value - value != 0:  # JSON has neither NaN nor infinity
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {name: plain(item) for name, item in vars(value).items()}


if __name__ == "__main__":
    print(json.dumps(answers()))
