"""One Intel device while it is awake: its facts and its readings, from sysfs, hwmon and fdinfo."""

import re
from typing import Final

from msgspec import Struct

from andon.drivers.intel import layout
from andon.drivers.shared import pci
from andon.drivers.shared.drm import FIRST_READING, OLD_FDINFO, CardClients, CardUse
from andon.drivers.shared.kernel import CachedValues, CardFiles, ReadingDraft
from andon.drivers.shared.sysfs import SysfsValue, Tree, hwmon, labels, system_memory
from andon.model.device import Device, Limits, MemoryKind, Reading
from andon.model.utilisation import READING_LOAD_PERCENT

# Names of Intel's cards; integrated GPUs are named by the system's list.

WELL_KNOWN: Final = {
    0x0BD5: "Intel Data Center GPU Max 1550",
    0x0BDA: "Intel Data Center GPU Max 1100",
    0x5690: "Intel Arc A770M",
    0x5691: "Intel Arc A730M",
    0x5692: "Intel Arc A550M",
    0x5693: "Intel Arc A370M",
    0x5694: "Intel Arc A350M",
    0x56A0: "Intel Arc A770",
    0x56A1: "Intel Arc A750",
    0x56A2: "Intel Arc A580",
    0x56A5: "Intel Arc A380",
    0x56A6: "Intel Arc A310",
    0x56C0: "Intel Data Center GPU Flex 170",
    0x56C1: "Intel Data Center GPU Flex 140",
    0xE20B: "Intel Arc B580",
    0xE20C: "Intel Arc B570",
    0xE211: "Intel Arc Pro B60",
    0xE212: "Intel Arc Pro B50",
    0x9A49: "Intel Iris Xe Graphics",
    0x46A6: "Intel Iris Xe Graphics",
    0xA7A0: "Intel Iris Xe Graphics",
    0x4680: "Intel UHD Graphics 770",
    0xA780: "Intel UHD Graphics 770",
    0x3E92: "Intel UHD Graphics 630",
    0x7D55: "Intel Arc Graphics",
    0x64A0: "Intel Arc Graphics 130V/140V",
}


OFTEN_SECONDS: Final = 5.0
_MICRO: Final = 1e-6
_SIZE = re.compile(r"^\s*(size|usage):\s*([0-9]{1,20})\s*$", re.ASCII | re.MULTILINE)
_INTEGRATED: Final = "0000:00:02.0"  # where every processor with graphics has its GPU
COUNTER_RESET: Final = "the driver's counter was reset"

OTHERWISE: Final = {
    "memory_utilization_percent": "not reported by Intel's drivers",
    "memory_reserved_bytes": "not reported by Intel's drivers",
    "memory_clock_mhz": "not reported by Intel's drivers",
    "encoder_percent": "Intel's video engines do both: encoding and decoding are not separate",
    "decoder_percent": "Intel's video engines do both: encoding and decoding are not separate",
    "ecc_uncorrected": "not reported by Intel's drivers",
    "performance_state": "Intel GPUs have no performance states",
    "sm_active_percent": "not reported by Intel's drivers",
    "tensor_active_percent": "not reported by Intel's drivers",
}


class Counter(Struct):
    """A counter that only grows, and its rate between two readings."""

    value: float | None = None
    at: float = 0.0

    def rate(self, answer: SysfsValue[float], now: float) -> SysfsValue[float]:
        """Returns the rate per second; None at the first reading and after a reset."""
        before, since = self.value, self.at
        self.value, self.at = answer.value, now
        if answer.value is None:
            return answer
        if before is None or now <= since:
            return SysfsValue(None, FIRST_READING)
        if answer.value < before:
            return SysfsValue(None, COUNTER_RESET)
        return SysfsValue((answer.value - before) / (now - since))


class IntelCard:
    """Implements kernel.AwakeCard."""

    def __init__(self, place: CardFiles) -> None:
        self._place, self._files = place, place.device
        self._unified = place.pci == _INTEGRATED
        self._name = pci.name(
            place.tree, "8086", self._files.integer("device").value, WELL_KNOWN, "Intel GPU"
        )
        self._hwmon: str | None = None
        self._channel = "1"
        self._temperatures: dict[str, str] = {}
        self._layout = layout.find(self._files, place.driver)
        self._energy, self._idle = Counter(), Counter()
        self._usage = CardClients(place.tree, place.pci, place.descriptors, self._is_ours)
        self._link = CachedValues(OFTEN_SECONDS)
        self._busy = True
        self._find()

    # Facts.

    def describe(self) -> Device:
        self._find()
        link = pci.link(self._place.tree, self._place.pci)
        slot = pci.slot(self._place.tree, self._place.pci)
        return Device(
            uuid=self._uuid,
            index=self._place.card.index,
            vendor="intel",
            name=self._name,
            pci=self._place.pci,
            memory_kind=MemoryKind.UNIFIED if self._unified else MemoryKind.DEVICE,
            memory_total_bytes=self._memory()[0].value,
            limits=Limits(
                slowdown_celsius=self._heat("crit", "pkg").value,
                power_default_watts=self._watts(f"power{self._channel}_rated_max").value,
                pcie_generation=link.generation_limit,
                pcie_width=link.width_limit,
                pcie_slot_generation=slot.generation,
                pcie_slot_width=slot.width,
                sm_clock_mhz=self._files.integer(self._layout.fastest_mhz).value,
            ),
        )

    @property
    def _uuid(self) -> str:
        """Returns the slot as identity: the drivers report no serial number."""
        return f"intel@{self._place.pci}"

    def _find(self) -> None:
        """Finds what does not change until the driver is reloaded."""
        files, self._layout = self._files, layout.find(self._files, self._place.driver)
        self._hwmon = hwmon(files, ["i915", "xe"])
        if self._hwmon is None:
            self._temperatures = {}
            return
        present = set(files.names(self._hwmon))
        # Channel 1 is the whole card, 2 the package, which is all that some cards measure.
        self._channel = "1" if "energy1_input" in present else "2"
        self._temperatures = labels(files, self._hwmon, "temp") or _unlabelled(self._place.driver)

    # Readings.

    def read(self, at: float, now: float) -> Reading:
        gathered = ReadingDraft(at, OTHERWISE)
        use = self._usage.read(self._place.nodes(), now)
        utilization = self._utilization(use, now)
        self._busy = use.moved or (utilization.value or 0) >= READING_LOAD_PERCENT
        gathered.put("utilization_percent", utilization)
        self._read_memory(gathered)
        self._read_sensors(gathered, now)
        gathered.put("sm_clock_mhz", self._files.integer(self._layout.clock_mhz))
        gathered.put("throttle", layout.throttle(self._files, self._layout))
        self._link.fill(gathered, at, now, self._place.read_link)
        return gathered.reading(self._uuid, use.processes, use.blind_spot)

    def is_busy(self) -> bool:
        return self._busy

    def _utilization(self, use: CardUse, now: float) -> SysfsValue[int]:
        """Returns the busiest engine if every process is visible; else the time not spent idle.

        The second is slightly higher, because a device takes a moment to become idle.
        """
        idle = self._files.first(self._layout.idle_milliseconds, self._files.integer)
        rest = self._idle.rate(idle.then(lambda milliseconds: milliseconds / 1000), now)
        silent = (
            bool(use.users) and use.engines == {}
        )  # there are clients, but no engine is reported
        if use.blind_spot is None and not silent:
            share = use.busy
            return SysfsValue(None, FIRST_READING) if share is None else SysfsValue(_percent(share))
        if idle.value is None:
            return SysfsValue(None, use.blind_spot or OLD_FDINFO)
        return rest.then(lambda share: _percent(1 - share))

    def _is_ours(self, region: str) -> bool:
        """Whether a memory region is the device's: for an integrated GPU all are, whatever the
        driver calls them."""
        return self._unified or region.startswith(("vram", "local"))

    def _read_memory(self, gathered: ReadingDraft) -> None:
        total, used = self._memory()
        gathered.put("memory_used_bytes", used)
        if total.value is None or used.value is None:
            gathered.put("memory_free_bytes", SysfsValue(None, used.reason or total.reason))
        else:
            gathered.put("memory_free_bytes", SysfsValue(max(0, total.value - used.value)))

    def _memory(self) -> tuple[SysfsValue[int], SysfsValue[int]]:
        """Returns total and used memory: the system's, or from the driver's file for root."""
        if self._unified:
            total, available = system_memory(self._place.tree)
            if total is None or available is None:
                unknown: SysfsValue[int] = SysfsValue(None, "not in /proc/meminfo")
                return unknown, unknown
            return SysfsValue(total), SysfsValue(total - available)
        return local_memory(self._place.tree, self._files, self._place.pci)

    def _read_sensors(self, gathered: ReadingDraft, now: float) -> None:
        energy = self._sense(f"energy{self._channel}_input").then(lambda value: value * _MICRO)
        gathered.put("energy_joules", energy)
        power = self._energy.rate(energy, now)
        gathered.put("power_watts", power.then(lambda watts: round(watts, 3)))
        gathered.put("power_limit_watts", self._limit())
        gathered.put("temperature_celsius", self._heat("input", "pkg"))
        gathered.put("memory_temperature_celsius", self._heat("input", "vram"))
        turns = self._sense("fan1_input")
        no_share = "the driver reports the fan speed in rpm (fan1_input), not in percent"
        gathered.put("fan_percent", SysfsValue(None, turns.reason or no_share))

    def _limit(self) -> SysfsValue[float]:
        watts = self._watts(f"power{self._channel}_max")
        return SysfsValue(None, "no sustained limit is set") if watts.value == 0 else watts

    def _watts(self, name: str) -> SysfsValue[float]:
        return self._sense(name).then(lambda microwatts: round(microwatts * _MICRO, 3))

    def _heat(self, what: str, label: str) -> SysfsValue[int]:
        sensor = self._temperatures.get(label)
        if sensor is None and self._hwmon is not None:
            return SysfsValue(None, f"the driver reports no {label} sensor")
        return self._sense(f"{sensor}_{what}").then(lambda millidegrees: round(millidegrees / 1000))

    def _sense(self, name: str) -> SysfsValue[int]:
        if self._hwmon is None:
            return SysfsValue(None, "this driver has no sensors for this device (no hwmon)")
        return self._files.integer(f"{self._hwmon}/{name}")


def local_memory(tree: Tree, device: Tree, address: str) -> tuple[SysfsValue[int], SysfsValue[int]]:
    """Total and used of a card's own memory: not in sysfs, but in debugfs, for root only."""
    numbers = [name.removeprefix("card") for name in device.names("drm") if name.startswith("card")]
    paths = [f"sys/kernel/debug/dri/{name}/vram0_mm" for name in (address, *numbers)]
    answer = tree.first(paths, tree.text)
    if answer.value is None:
        missing: SysfsValue[int] = SysfsValue(None, answer.reason)
        return missing, missing
    return parse_manager(answer.value)


def parse_manager(text: str) -> tuple[SysfsValue[int], SysfsValue[int]]:
    """Parses `size: N` and `usage: N`, in bytes, among other lines."""
    found = {name: int(count) for name, count in _SIZE.findall(text)}
    size, used = found.get("size"), found.get("usage")
    return (
        SysfsValue(size, "vram0_mm has no size" if size is None else ""),
        SysfsValue(used, "vram0_mm has no usage" if used is None else ""),
    )


def _unlabelled(driver: str) -> dict[str, str]:
    """Returns the sensor numbers that the drivers' documentation defines."""
    return {"pkg": "temp2", "vram": "temp3"} if driver == "xe" else {"pkg": "temp1"}


def _percent(share: float) -> int:
    return min(100, max(0, round(100 * share)))
