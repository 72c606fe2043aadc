"""One AMD card while it is awake: its facts and its readings, from sysfs and hwmon."""

import re
from collections.abc import Mapping
from typing import Any, Final

from andon.drivers.amd import kfd, metrics
from andon.drivers.amd.smi import Smi
from andon.drivers.shared import pci
from andon.drivers.shared.drm import CardClients
from andon.drivers.shared.kernel import CachedValues, CardFiles, ReadingDraft
from andon.drivers.shared.sysfs import SysfsValue, Tree, hwmon, labels
from andon.model.device import Device, Limits, MemoryKind, Reading
from andon.model.utilisation import READING_LOAD_PERCENT

# Name of an AMD card: from its own ROM, the system's lists, else its device id.

_LIST: Final = "usr/share/libdrm/amdgpu.ids"  # part of every Mesa
NAMELESS: Final = "AMD GPU"
WELL_KNOWN: Final = {
    0x66A1: "AMD Instinct MI50",
    0x738C: "AMD Instinct MI100",
    0x740C: "AMD Instinct MI250X",
    0x7408: "AMD Instinct MI250X",
    0x740F: "AMD Instinct MI210",
    0x74A0: "AMD Instinct MI300A",
    0x74A1: "AMD Instinct MI300X",
    0x74A5: "AMD Instinct MI325X",
    0x75A0: "AMD Instinct MI350X",
    0x73BF: "AMD Radeon RX 6800/6900",
    0x744C: "AMD Radeon RX 7900",
    0x747E: "AMD Radeon RX 7700/7800",
    0x7480: "AMD Radeon RX 7600",
    0x7550: "AMD Radeon RX 9070",
    0x7590: "AMD Radeon RX 9060 XT",
    0x1586: "AMD Radeon 8050S/8060S",
    0x150E: "AMD Radeon 880M/890M",
    0x15BF: "AMD Radeon 780M",
    0x1681: "AMD Radeon 680M",
    0x1638: "AMD Radeon Vega (Cezanne)",
    0x1636: "AMD Radeon Vega (Renoir)",
}
"""One device id covers several models, which differ by revision: hence the slashes."""


def name(tree: Tree, device: Tree) -> str:
    """Returns the name from the card itself or from this system's lists."""
    own = device.text("product_name").value
    if own:
        return branded(own)
    number, revision = device.integer("device").value, device.integer("revision").value
    if number is not None and revision is not None:
        listed = parse_list(tree.text(_LIST).value or "", number, revision)
        if listed is not None:
            return listed
    return pci.name(tree, "1002", number, WELL_KNOWN, NAMELESS)


def is_nameless(found: str) -> bool:
    """Whether no name was found, and the device id is used instead."""
    return found == NAMELESS or found.startswith(f"{NAMELESS} 0x")


def branded(model: str) -> str:
    return model if "AMD" in model else f"AMD {model}"


def parse_list(text: str, device: int, revision: int) -> str | None:
    """Finds `744C, C8, AMD Radeon RX 7900 XTX` in libdrm's list."""
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",", 2)]
        if len(parts) == 3 and (parts[0], parts[1]) == (f"{device:04X}", f"{revision:02X}"):
            return parts[2]
    return None


OFTEN_SECONDS: Final = 5.0
SELDOM_SECONDS: Final = 60.0
_MICRO: Final = 1e-6
_CLOCK = re.compile(r"([0-9]{1,6})\s*Mhz", re.ASCII | re.IGNORECASE)

OTHERWISE: Final = {
    "memory_reserved_bytes": "amdgpu counts its own reserve as used",
    "energy_joules": "amdgpu has no energy counter file",
    "encoder_percent": "amdgpu does not separate encoding from decoding",
    "decoder_percent": "amdgpu does not separate encoding from decoding",
    "performance_state": "AMD GPUs have no performance states",
    "sm_active_percent": "not reported by amdgpu",
    "tensor_active_percent": "not reported by amdgpu",
}


class AmdCard:
    """Implements kernel.AwakeCard."""

    def __init__(self, place: CardFiles, smi: Smi) -> None:
        self._place, self._files, self._smi = place, place.device, smi
        self._hwmon: str | None = None
        self._temperatures: dict[str, str] = {}
        self._unified = False
        self._name: str | None = None
        self._uuid = f"amd@{place.pci}"
        self._kfd_ids: tuple[int, ...] = ()
        self._usage = CardClients(place.tree, place.pci, place.descriptors, self._is_ours)
        self._link, self._counts = CachedValues(OFTEN_SECONDS), CachedValues(SELDOM_SECONDS)
        self._busy = True
        self._find()

    # Facts.

    def describe(self) -> Device:
        self._find()
        self._ask_for_name()
        return Device(
            uuid=self._uuid,
            index=self._place.card.index,
            vendor="amd",
            name=self._name or NAMELESS,
            pci=self._place.pci,
            memory_kind=MemoryKind.UNIFIED if self._unified else MemoryKind.DEVICE,
            memory_total_bytes=self._memory("total").value,
            limits=self._limits(),
        )

    def _find(self) -> None:
        """Finds what does not change until the driver is reloaded."""
        files = self._files
        self._hwmon = hwmon(files, ["amdgpu"])
        self._temperatures = self._sensors()
        self._unified = self._is_processor()
        self._name = self._name or name(self._place.tree, files)
        unique = files.text("unique_id").value
        self._uuid = f"AMD-{unique.removeprefix('0x')}" if unique else f"amd@{self._place.pci}"
        self._kfd_ids = kfd.ids(self._place.tree, self._place.pci)

    def _ask_for_name(self) -> None:
        if self._name is not None and is_nameless(self._name):
            sold_as = self._smi.market_name(self._place.pci)
            self._name = branded(sold_as) if sold_as else self._name

    def _sensors(self) -> dict[str, str]:
        """Returns the sensors by label, such as `edge`; an old kernel has one without a label."""
        if self._hwmon is None:
            return {}
        found = labels(self._files, self._hwmon, "temp")
        return found or {"edge": "temp1"}

    def _is_processor(self) -> bool:
        """Whether the GPU is part of a processor and shares its memory.

        Only those report a northbridge voltage, and only they have metrics 2.x and 3.x.
        """
        if self._files.text(f"{self._hwmon}/in1_label").value == "vddnb":
            return True
        table = self._files.raw("gpu_metrics").value
        found = None if table is None else metrics.version(table)
        return found is not None and found[0] in metrics.PROCESSOR_FORMATS

    def _limits(self) -> Limits:
        link = pci.link(self._place.tree, self._place.pci)
        slot = pci.slot(self._place.tree, self._place.pci)
        return Limits(
            slowdown_celsius=self._heat("crit", "edge", "junction").value,
            power_default_watts=self._sense("power1_cap_default").then(_watts).value,
            pcie_generation=link.generation_limit,
            pcie_width=link.width_limit,
            pcie_slot_generation=slot.generation,
            pcie_slot_width=slot.width,
            sm_clock_mhz=parse_fastest(self._files.text("pp_dpm_sclk").value or ""),
        )

    # Readings.

    def read(self, at: float, now: float) -> Reading:
        gathered = ReadingDraft(at, OTHERWISE)
        utilization = self._files.integer("gpu_busy_percent").then(_percent)
        gathered.put("utilization_percent", utilization)
        gathered.put(
            "memory_utilization_percent", self._files.integer("mem_busy_percent").then(_percent)
        )
        self._read_memory(gathered)
        self._read_sensors(gathered)
        gathered.put("throttle", metrics.throttle(self._files.raw("gpu_metrics")))
        self._link.fill(gathered, at, now, self._place.read_link)
        self._counts.fill(gathered, at, now, self._read_counts)
        return self._with_processes(gathered, utilization.value, now)

    def is_busy(self) -> bool:
        return self._busy

    def _with_processes(self, gathered: ReadingDraft, busy: int | None, now: float) -> Reading:
        use = self._usage.read(self._place.nodes(), now)
        computing = kfd.processes(self._place.tree, self._kfd_ids)
        computing.pop(self._smi.own_pid or 0, None)
        self._busy = bool(computing) or (busy or 0) >= READING_LOAD_PERCENT or use.moved
        every = kfd.merged(use.processes, computing)
        processes = tuple(process for process in every if process.pid != self._smi.own_pid)
        return gathered.reading(self._uuid, processes, use.blind_spot)

    def _read_memory(self, gathered: ReadingDraft) -> None:
        used, total = self._memory("used"), self._memory("total")
        gathered.put("memory_used_bytes", used)
        free = used.then(lambda value: max(0, total.value - value) if total.value else None)
        reason = used.reason or total.reason
        gathered.put(
            "memory_free_bytes", free if free.value is not None else SysfsValue(None, reason)
        )

    def _memory(self, what: str) -> SysfsValue[int]:
        """Returns a card's own memory; for a processor both pools, because work uses both."""
        own = self._files.integer(f"mem_info_vram_{what}")
        if not self._unified or own.value is None:
            return own
        shared, first = self._files.integer(f"mem_info_gtt_{what}"), own.value
        return shared.then(lambda second: first + second)

    def _is_ours(self, region: str) -> bool:
        return region == "vram" or (self._unified and region == "gtt")

    def _read_sensors(self, gathered: ReadingDraft) -> None:
        gathered.put("temperature_celsius", self._heat("input", "edge", "junction"))
        gathered.put("memory_temperature_celsius", self._heat("input", "mem"))
        gathered.put("power_watts", self._sense("power1_average", "power1_input").then(_watts))
        gathered.put("power_limit_watts", self._sense("power1_cap").then(_watts))
        gathered.put("sm_clock_mhz", self._sense("freq1_input").then(_mhz))
        gathered.put("memory_clock_mhz", self._sense("freq2_input").then(_mhz))
        gathered.put("fan_percent", self._fan())

    def _heat(self, what: str, *wanted: str) -> SysfsValue[int]:
        """Returns the first available sensor: an MI300 has no edge sensor, only junction."""
        for label in wanted:
            if label in self._temperatures:
                return self._sense(f"{self._temperatures[label]}_{what}").then(_celsius)
        return SysfsValue(None, f"the driver reports no {wanted[0]} sensor")

    def _sense(self, *names: str) -> SysfsValue[int]:
        if self._hwmon is None:
            return SysfsValue(None, f"not reported by this kernel (no {names[0]})")
        paths = [f"{self._hwmon}/{one}" for one in names]
        return self._files.first(paths, self._files.integer)

    def _fan(self) -> SysfsValue[int]:
        """Returns the fan in percent of full power; of full speed where only that is known."""
        power = self._sense("pwm1")
        if power.value is not None:
            return _share(power.value, self._sense("pwm1_max").value or 255)
        speed = self._sense("fan1_input")
        fastest = self._sense("fan1_max").value
        if speed.value is None or not fastest:
            return SysfsValue(None, power.reason)
        return _share(speed.value, fastest)

    def _read_counts(self) -> Mapping[str, SysfsValue[Any]]:
        """The counters; if the library has no value either, the reason from the files is kept."""
        errors = parse_errors(self._files.text("ras/umc_err_count"))
        if errors.absent:
            count = self._smi.uncorrected(self._place.pci)
            errors = errors if count is None else SysfsValue(count)
        joules = self._smi.energy_joules(self._place.pci)
        return {"ecc_uncorrected": errors, "energy_joules": SysfsValue(joules)}


def parse_errors(answer: SysfsValue[str]) -> SysfsValue[int]:
    """Parses the uncorrected errors of the memory controllers, from `ue: 0`, `ce: 3`."""
    if answer.value is None:
        return SysfsValue(None, answer.reason, answer.absent)
    for line in answer.value.splitlines():
        key, _, count = line.partition(":")
        if key.strip() == "ue" and count.strip().isdecimal():
            return SysfsValue(int(count))
    return SysfsValue(None, "umc_err_count has no count of uncorrected errors")


def parse_fastest(text: str) -> int | None:
    """Returns the highest of `0: 500Mhz`, `1: 2482Mhz *`."""
    return max((int(clock) for clock in _CLOCK.findall(text)), default=None)


def _share(part: int, whole: int) -> SysfsValue[int]:
    return SysfsValue(_percent(round(100 * part / whole)))


def _percent(value: int) -> int:
    """Returns a percentage; a value far above 100 is not shown as full load."""
    return 100 if 100 < value <= 105 else value


def _celsius(millidegrees: int) -> int:
    return round(millidegrees / 1000)


def _watts(microwatts: int) -> float:
    return round(microwatts * _MICRO, 3)


def _mhz(hertz: int) -> int:
    return round(hertz * _MICRO)
