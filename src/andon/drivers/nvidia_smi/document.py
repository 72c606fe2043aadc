"""Parses `nvidia-smi -q -x`, in any of the schemas from v6 to v13."""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from andon.drivers.nvidia_smi import texts
from andon.drivers.nvidia_smi.report import Gpu, MigInstance, SmiProcess, SmiReport
from andon.drivers.nvidia_smi.texts import NOT_REPORTED, Unknown, Value
from andon.model.codec import MOST_ITEMS
from andon.model.device import MOST_DEVICES, ProcessKind
from andon.model.throttling import NVIDIA_REASONS, reason_of_smi

_LOG: Final = ("<nvidia_smi_log>", "</nvidia_smi_log>")
_DEVICE: Final = re.compile(r"<(?:gpu|mig_device)[\s/>]")
_USE, _NAME = "<process_info>", "<process_name>"
_NAME_ENDS: Final = re.compile(r"</process_name>(?=\s*<used_memory>)")
_NOT_XML: Final = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"

_PCIE = "pci/pci_gpu_link_info"
_SAMPLE: Final = {
    "utilization_percent": ("utilization/gpu_util",),
    "memory_utilization_percent": ("utilization/memory_util",),
    "encoder_percent": ("utilization/encoder_util",),
    "decoder_percent": ("utilization/decoder_util",),
    "temperature_celsius": ("temperature/gpu_temp",),
    "memory_temperature_celsius": ("temperature/memory_temp",),
    "power_watts": (  # the average first: it is NVML's power usage
        "gpu_power_readings/average_power_draw",
        "gpu_power_readings/power_draw",
        "gpu_power_readings/instant_power_draw",
        "power_readings/power_draw",
    ),
    "power_limit_watts": (
        "gpu_power_readings/current_power_limit",
        "power_readings/enforced_power_limit",
        "power_readings/power_limit",
    ),
    "fan_percent": ("fan_speed",),
    "sm_clock_mhz": ("clocks/sm_clock",),
    "memory_clock_mhz": ("clocks/mem_clock",),
    "pcie_generation": (f"{_PCIE}/pcie_gen/current_link_gen",),
    "pcie_width": (f"{_PCIE}/link_widths/current_link_width",),
    "pcie_received_bytes_per_second": ("pci/rx_util",),
    "pcie_sent_bytes_per_second": ("pci/tx_util",),
    "performance_state": ("performance_state",),
}
_MEMORY: Final = {
    "memory_total_bytes": ("fb_memory_usage/total",),
    "memory_used_bytes": ("fb_memory_usage/used",),
    "memory_free_bytes": ("fb_memory_usage/free",),
    "memory_reserved_bytes": ("fb_memory_usage/reserved",),
}
_LIMITS: Final = {
    "slowdown_celsius": ("temperature/gpu_temp_slow_threshold",),
    "power_default_watts": (
        "gpu_power_readings/default_power_limit",
        "power_readings/default_power_limit",
    ),
    "pcie_generation": (f"{_PCIE}/pcie_gen/max_link_gen",),
    "pcie_width": (f"{_PCIE}/link_widths/max_link_width",),
    "sm_clock_mhz": ("max_clocks/sm_clock",),
}
_SETUP: Final = {
    "persistence": "persistence_mode",
    "ecc": "ecc_mode/current_ecc",
    "ecc_pending": "ecc_mode/pending_ecc",
}


def parse(text: str) -> SmiReport | None:
    """Parses the document; None if there is no complete one, or one of too many devices or
    processes. Text before and after it is ignored.

    Only the body is parsed, so that no document type can define an entity. Process names are
    dropped first: other users choose them, they are not escaped, and the host provides them.
    """
    body = _body(text)
    if body is None:
        return None
    body = _without_clocks(_without_names(body))
    if len(_DEVICE.findall(body)) > MOST_DEVICES or body.count(_USE) > MOST_ITEMS:
        return None
    log = _tree(body)
    if log is None and (log := _tree(re.sub(_NOT_XML, "", body))) is None:
        return None
    found = {"driver": _text(log, "driver_version"), "cuda": _text(log, "cuda_version")}
    versions = {name: text for name, text in found.items() if text and texts.is_text(text)}
    lost = texts.may_be_lost(body)  # of thousands of texts, none in most reports
    gpus = tuple(_gpu(gpu, lost) for gpu in log.findall("gpu"))
    return SmiReport(gpus=gpus, versions=versions)


def _tree(body: str) -> Element | None:
    try:
        return ElementTree.fromstring(body)  # noqa: S314 - no document type, so no entities
    except (ElementTree.ParseError, UnicodeEncodeError):
        return None


def around(text: str) -> str:
    """Returns the text before and after the document, which no process name can affect."""
    body = _body(text)
    return text if body is None else text.replace(body, "\n", 1)


def _body(text: str) -> str | None:
    """Returns the text from the first start tag to the last end tag, if there are both."""
    start, end = text.find(_LOG[0]), text.rfind(_LOG[1])
    return text[start : end + len(_LOG[1])] if 0 <= start < end else None


def _without_names(text: str) -> str:
    """Removes process names up to the next field: a name may itself look like a document."""
    parts: list[str] = []
    done = 0
    while (start := text.find(_NAME, done)) >= 0 and (end := _NAME_ENDS.search(text, start)):
        parts.append(text[done:start])
        done = end.end()
    return "".join([*parts, text[done:]])


def _without_clocks(text: str) -> str:
    """Removes the lists of all clocks that a board supports: half of the text, never shown."""
    first, *others = text.split("<supported_clocks>")
    return "".join([first, *(part.partition("</supported_clocks>")[2] for part in others)])


def _gpu(gpu: Element, may_be_lost: bool) -> Gpu:
    uses, reason = _uses(gpu)
    uuid, name = _text(gpu, "uuid"), _text(gpu, "product_name")
    pci = texts.pci_address(gpu.get("id")) or texts.pci_address(_text(gpu, "pci/pci_bus_id"))
    special = {"throttle": _throttle(gpu), "ecc_uncorrected": _ecc_uncorrected(gpu)}
    return Gpu(
        uuid=uuid if uuid and uuid.startswith("GPU-") else None,
        pci=pci,
        name=name if name and texts.is_text(name) else "NVIDIA GPU",
        values=_values(gpu, _SAMPLE) | _values(gpu, _MEMORY) | special,
        limits=_values(gpu, _LIMITS),
        setup={name: texts.flag(_text(gpu, path)) for name, path in _SETUP.items()},
        uses=uses,
        uses_reason=reason,
        parts=tuple(_parts(gpu)),
        lost=_lost(gpu) if may_be_lost else None,
    )


def _values(gpu: Element, table: Mapping[str, tuple[str, ...]]) -> dict[str, Value]:
    return {name: _first(gpu, name, paths) for name, paths in table.items()}


def _first(gpu: Element, name: str, paths: tuple[str, ...]) -> Value:
    """Returns the first path with a number; else the text of the first one that exists."""
    found = [texts.read(name, text) for path in paths if (text := _text(gpu, path)) is not None]
    numbers = (value for value in found if not isinstance(value, Unknown))
    return next(numbers, found[0] if found else NOT_REPORTED)


def _throttle(gpu: Element) -> tuple[str, ...] | Unknown:
    section = gpu.find("clocks_event_reasons")
    if section is None:
        section = gpu.find("clocks_throttle_reasons")
    if section is None:
        return NOT_REPORTED
    states = {
        reason_of_smi(child.tag.partition("_reason_")[2]): (child.text or "").strip()
        for child in section
    }
    if not {"Active", "Not Active"} & set(states.values()):
        return texts.unknown(next(iter(states.values()), section.text or ""))
    return tuple(reason.name for reason in NVIDIA_REASONS if states.get(reason.name) == "Active")


def _ecc_uncorrected(gpu: Element) -> int | float | Unknown:
    """The errors since the driver was loaded. Parts that a chip does not count are left out."""
    volatile = gpu.find("ecc_errors/volatile")
    if volatile is None:
        return NOT_REPORTED
    total = _text(volatile, "double_bit/total")
    cells = [total] if total is not None else _uncorrectable(volatile)
    counts = [texts.number(text, texts.COUNT) for text in cells]
    odd = [count for count in counts if isinstance(count, Unknown)]
    sure = [count for count in counts if not isinstance(count, Unknown)]
    if not sure or not all(count.absent for count in odd):
        return next((c for c in odd if not c.absent), odd[0] if odd else NOT_REPORTED)
    return sum(sure)


def _uncorrectable(volatile: Element) -> list[str]:
    return [(part.text or "") for part in volatile if "uncorrectable" in part.tag]


def _uses(gpu: Element) -> tuple[tuple[SmiProcess, ...], str | None]:
    """Returns every process once, and the reason if there is no list."""
    section = gpu.find("processes")
    if section is None:
        return (), NOT_REPORTED.reason
    text = (section.text or "").strip()
    if text and text != "None" and section.find("process_info") is None:
        return (), texts.unknown(text).reason
    found: dict[tuple[int, object], SmiProcess] = {}
    for process in section.findall("process_info"):
        use = _use(process)
        if use is not None:
            found.setdefault((use.pid, use.place), use)
    return tuple(found.values()), None


def _use(process: Element) -> SmiProcess | None:
    pid = texts.number(_text(process, "pid") or "", texts.COUNT)
    if isinstance(pid, Unknown) or pid < 1:
        return None
    memory = texts.read("memory_bytes", _text(process, "used_memory"))
    graphics = _text(process, "type") == "G"  # C+G computes too
    return SmiProcess(
        pid=int(pid),
        kind=ProcessKind.GRAPHICS if graphics else ProcessKind.COMPUTE,
        memory_bytes=None if isinstance(memory, Unknown) else int(memory),
        place=_place(process),
    )


def _parts(gpu: Element) -> Iterator[MigInstance]:
    for number, part in enumerate(gpu.findall("mig_devices/mig_device")):
        place, index = _place(part), texts.number(_text(part, "index") or "", texts.COUNT)
        uuid = _text(part, "uuid")
        if place is not None:
            yield MigInstance(
                number=number if isinstance(index, Unknown) else int(index),
                place=place,
                uuid=uuid if uuid and uuid.startswith("MIG-") else None,
                values=_values(part, _MEMORY),
            )


def _place(element: Element) -> tuple[int, int] | None:
    names = ("gpu_instance_id", "compute_instance_id")
    found = [texts.number(_text(element, name) or "", texts.COUNT) for name in names]
    if isinstance(found[0], Unknown):
        return None
    return int(found[0]), 0 if isinstance(found[1], Unknown) else int(found[1])


def _lost(gpu: Element) -> str | None:
    """Returns why a device is lost: it reports that in place of most values."""
    cells = [one.text for one in gpu.iter() if one.text and one.tag != "process_name"]
    return next((why for text in cells if (why := texts.lost(text))), None)


def _text(element: Element, path: str) -> str | None:
    found: Element | None = element
    for tag in path.split("/"):  # a whole path would be walked in Python, a tag is found in C
        if found is None:
            return None
        found = found.find(tag)
    return None if found is None else (found.text or "").strip()
