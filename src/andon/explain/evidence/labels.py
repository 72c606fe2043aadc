"""The labels and texts of evidence for people, in `why` and in alerts."""

from andon.explain.evidence.phrasing import format_evidence
from andon.explain.evidence.reasons import Evidence
from andon.model.device import reading_label
from andon.model.throttling import reason_of

NAMES = {
    "limits.slowdown_celsius": "slowdown temperature",
    "limits.sm_clock_mhz": "max clock",
    "limits.power_default_watts": "default power limit",
    "limits.pcie_width": "max lanes",
    "limits.pcie_generation": "max PCIe generation",
    "limits.pcie_slot_width": "slot's lanes",
    "limits.pcie_slot_generation": "slot's PCIe generation",
    "setup.ecc": "ECC",
    "setup.ecc_pending": "ECC after a reboot",
    "setup.persistence": "persistence mode",
    "setup.start_seconds": "start of the driver",
    "pcie_width": "lanes",
    "pcie_generation": "PCIe generation",
    "memory_total_bytes": "total memory",
    "memory_used_bytes": "memory used",
    "memory_percent": "memory",
    "memory_unattributed_bytes": "unaccounted",
    "clock_loss_percent": "clock loss",
    "power_percent": "share of power limit",
    "power_limit_percent": "share of default limit",
    "ecc_uncorrected": "uncorrected errors",
    "idle_seconds": "idle for",
    "state_seconds": "for at least",
    "last.users": "last used by",
    "process.idle_seconds": "process idle for",
    "recent_seconds": "sampled for",
    "utilization_mean_percent": "mean",
    "utilization_min_percent": "min",
    "utilization_max_percent": "max",
    "peers_sm_clock_mhz": "peers' clock",
    "peers_temperature_celsius": "peers' temperature",
    "host.cpu_percent": "CPU",
    "host.memory_percent": "host memory",
    "host.memory_pressure_percent": "waiting for memory",
    "driver.loaded": "loaded",
    "driver.part": "differs:",
    "driver.other": "version",
    "memory_rise_bytes": "rise",
    "memory_rise_seconds": "over",
    "memory_growth_bytes_per_second": "rate",
    "full_in_seconds": "full in",
}
"""The names of evidence, where they do not follow from the field's name."""

IN_SENTENCE = ("reason", "fault", "source", "state")
"""Evidence that the sentence contains already."""


def named(evidence: Evidence, whole: Evidence | None = None) -> str:
    """`SM clock 1755 of 1980 MHz`."""
    name, value = evidence.name, format_evidence(evidence)
    if name.startswith("missing."):
        return f"{reading_label(name.removeprefix('missing.'))}: {value}"
    if name.startswith("last."):
        return f"last {reading_label(name.removeprefix('last.'))} {value}"
    if name == "throttle":
        value = ", ".join(reason_of(name).title for name in value.split(", "))
    if whole is not None:
        value = f"{value.removesuffix(evidence.unit).rstrip()} of {format_evidence(whole)}"
    return f"{label_of(name)} {value}"


def label_of(name: str) -> str:
    """Returns the label of a piece of evidence: `clock loss`."""
    if name.startswith("worst."):
        return f"worst {label_of(name.removeprefix('worst.'))}"
    return NAMES.get(name) or reading_label(name)
