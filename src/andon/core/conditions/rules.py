"""The catalogue of alert rules as data: condition, duration, explanation and remedy."""

from dataclasses import dataclass
from enum import StrEnum

from andon.model.alert import Level

DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3_600.0


class Subject(StrEnum):
    """What kind of thing a rule judges."""

    DEVICE = "device"
    NODE = "node"
    ANDON = "andon"  # the store, the sampler, a notifier
    LEASE = "lease"


class Precondition(StrEnum):
    """What a rule needs before it can judge anything."""

    READINGS = "readings"
    LEASES = "leases"


INACTIVE = {Precondition.LEASES: "needs a server that follows the lease book: andon serve"}
"""Why a rule is inactive without its precondition."""
READINGS = frozenset({Precondition.READINGS})
"""What a single sample provides."""
SERVED = frozenset({Precondition.READINGS, Precondition.LEASES})
"""What a server provides: it also follows the lease book."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a rule: a level, its condition, and how long it must hold and be clear."""

    level: Level
    condition: str  # as text for people, with the names of numbers: see `stated`
    for_seconds: float
    clear_condition: str
    clear_seconds: float
    notify: bool = True
    for_figure: str | None = None  # the threshold that sets `for_seconds`, if any


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the catalogue, its rungs from the lowest to the highest level."""

    name: str
    title: str
    subject_kind: Subject
    rungs: tuple[Rung, ...]
    why: str
    advice: str
    threshold: str | None = None  # its main field of `Thresholds`
    unit: str = ""
    needs: Precondition = Precondition.READINGS
    weight: int = 0  # 0 to 19: urgency among alerts of one level
    momentary: bool = False  # it counts events: calm is the time since the last one

    @property
    def level(self) -> Level:
        """The highest level it can reach."""
        return max((rung.level for rung in self.rungs), key=lambda level: level.rank)

    @property
    def for_seconds(self) -> float:
        return self.rungs[0].for_seconds

    @property
    def clear_seconds(self) -> float:
        return self.rungs[0].clear_seconds


def inactive_reason(rule: Rule, awake: frozenset[Precondition] = READINGS) -> str | None:
    """Why a rule is inactive here; None if it is active."""
    return INACTIVE[rule.needs] if rule.needs not in awake else None


def severity(level: Level, rule: Rule) -> int:
    """0 to 100: by level, then by urgency among alerts of one level."""
    return {Level.INFO: 10, Level.WARNING: 40, Level.CRITICAL: 80}[level] + rule.weight


INFO, WARNING, CRITICAL = Level.INFO, Level.WARNING, Level.CRITICAL
COOLING = (
    "Check the cooling: dust, blocked slots, a warm room, a neighbouring card. Until then, a lower "
    "power limit keeps it cooler."
)

DEVICE_RULES = (
    Rule(
        "thermal", "Too hot", Subject.DEVICE,
        (
            Rung(WARNING, "at {thermal_celsius} °C, or {thermal_margin_celsius} °C below its "
                 "slowdown temperature if that is lower", 60, "{thermal_clear} °C below that", 120,
                 notify=False),
            Rung(WARNING, "that, and within {thermal_margin_celsius} °C of its slowdown "
                 "temperature or thermally throttled", 60, "as above", 120),
            Rung(CRITICAL, "that, and at its slowdown temperature or throttled by the hardware", 30,
                 "{thermal_critical_clear} °C below its slowdown temperature, and not throttled "
                 "by the hardware", 120),
        ),
        "Heat shortens a device's life, and above its slowdown temperature it costs speed. A "
        "device without a known slowdown temperature notifies from {thermal_notify_celsius} °C; "
        "{thermal_critical_celsius} °C is critical.",
        COOLING, "thermal_celsius", "celsius", weight=18,
    ),
    Rule(
        "memory", "Memory nearly full", Subject.DEVICE,
        (Rung(INFO, "{memory_percent} % of its memory in use", 60, "{memory_clear} %", 120,
              notify=False),),
        "Training and inference servers fill memory by design: worth knowing, not a problem.",
        "Nothing to do if this is intended; the next allocation may fail.",
        "memory_percent", "percent", weight=6,
    ),
    Rule(
        "power", "At its power limit", Subject.DEVICE,
        (Rung(INFO, "{power_percent} % of the current power limit", 60, "{power_clear} %", 120,
              notify=False),),
        "Normal under full load: worth knowing, not a problem.",
        "Nothing to do: this is normal under full load.", "power_percent", "percent", weight=4,
    ),
    Rule(
        "idle", "Held but idle", Subject.DEVICE,
        (Rung(WARNING, "held by a lease, job or run, and its utilisation is 0", 300,
              "in use for 30 s, or no longer held", 30, for_figure="idle_seconds"),),
        "It is held and nothing runs on it, while others may be waiting.",
        "Ask its owner whether it is still needed; releasing the lease frees it.",
        "idle_seconds", "seconds", needs=Precondition.LEASES, weight=2,
    ),
    Rule(
        "throttle_thermal", "Thermally throttled", Subject.DEVICE,
        (
            Rung(WARNING, "the driver reports a thermal throttle reason; AMD's temperature limit "
                 "counts while the device is hot", 60, "it does not", 120),
            Rung(CRITICAL, "the hardware throttles it because of heat, or at its slowdown "
                 "temperature without giving a reason", 60, "it does not", 120),
        ),
        "Heat costs speed now, whatever the chip's temperature: its memory may be the cause.",
        COOLING, weight=16,
    ),
    Rule(
        "throttle_power", "Slowed by its power limit", Subject.DEVICE,
        (Rung(WARNING, "in use, and more than {clock_loss_percent} % below its maximum clock "
              "because of its power limit, or {clock_loss_default_limit_percent} % at its default "
              "limit", 300, "{clock_loss_clear} points less", 120),),
        "The power limit costs more clock speed than a full load normally does.",
        "Raise the limit to the device's default, if power and cooling allow.",
        "clock_loss_percent", "percent", weight=8,
    ),
    Rule(
        "throttle_hardware", "Throttled by the hardware", Subject.DEVICE,
        (
            Rung(WARNING, "the hardware throttles it and reports neither heat nor power", 30,
                 "it does not", 120),
            Rung(CRITICAL, "the power supply throttles it", 30, "it does not", 120),
        ),
        "A cable, a power supply or the board itself is slowing it down.",
        "Check its power cables and supplies first, then the cooling: "
        "sudo nvidia-smi -q -d PERFORMANCE", weight=14,
    ),
    Rule(
        "device_lost", "Lost", Subject.DEVICE,
        (Rung(CRITICAL, "the driver reports it as lost", 10, "it answers, or is asleep", 60),),
        "The device is lost; what ran on it has failed.",
        "Find the cause: sudo dmesg | grep -i -e xid -e nvrm. Then reset it, or reboot.",
        weight=19,
    ),
    Rule(
        "driver_hung", "Not responding", Subject.DEVICE,
        (
            Rung(WARNING, "the driver does not answer for it", 60, "it answers, or is asleep", 60),
            Rung(CRITICAL, "the driver does not answer for it", 300, "it answers, or is asleep",
                 60),
        ),
        "Work on it is stuck, and it cannot be monitored. If all devices of a vendor stop "
        "responding, there is one alert for the driver.",
        "The kernel log may say why: sudo dmesg. If this persists, reboot the node.", weight=17,
    ),
    Rule(
        "ecc", "Memory errors", Subject.DEVICE,
        (
            Rung(INFO, "errors from before andon first saw it", 0, "24 h without another, or 60 s "
                 "after the counter was reset", DAY_SECONDS, notify=False),
            Rung(CRITICAL, "the count of uncorrected errors rose", 0, "24 h without another, or "
                 "60 s after the counter was reset", DAY_SECONDS),
        ),
        "The memory returned wrong data that could not be corrected: results may be wrong.",
        "Stop the work on it and reset the device; if the errors return, have it replaced.",
        unit="errors", weight=15, momentary=True,
    ),
    Rule(
        "xid", "The driver reports an error", Subject.DEVICE,
        (
            Rung(INFO, "an error caused by the application", 0, "1 h without another, or 60 s "
                 "after a reboot", HOUR_SECONDS, notify=False),
            Rung(WARNING, "any other error", 0, "24 h without another, or 60 s after a reboot",
                 DAY_SECONDS),
            Rung(CRITICAL, "an error that means a broken or stuck device", 0, "24 h without "
                 "another, or 60 s after a reboot", DAY_SECONDS),
        ),
        "The driver reports errors by number; some mean that the device has to be reset.",
        "The message says what this number means.", unit="xid", weight=13, momentary=True,
    ),
    Rule(
        "fan", "Fan stopped", Subject.DEVICE,
        (Rung(WARNING, "its fan does not turn at {fan_celsius} °C or more", 60,
              "it turns, or {fan_clear} °C", 60),),
        "It is hot and nothing cools it.",
        "Stop the work on it, then check the fan: its cable, a blocked blade, its bearing.",
        "fan_celsius", "celsius", weight=12,
    ),
    Rule(
        "unattributed_memory", "Unattributed memory", Subject.DEVICE,
        (
            Rung(INFO, "{unattributed_percent} % of its memory, and {unattributed_gib} GiB, and "
                 "more than 256 MiB for each process", 600, "{unattributed_clear} %", 120,
                 notify=False),
            Rung(WARNING, "that, while its utilisation is 0", 600, "in use, or the above", 120),
        ),
        "A process that crashed, or that you cannot see, keeps it from others.",
        "Find out who has it open: sudo fuser -v /dev/nvidia*", "unattributed_percent", "bytes",
        weight=5,
    ),
    Rule(
        "memory_leak", "Memory keeps growing", Subject.DEVICE,
        (Rung(WARNING, "{leak_percent} % full, and rising steadily for ten minutes, by 5 % or "
              "more, so that it fills within {leak_time}", 60,
              "no such rise, or {leak_clear_time}, or below {leak_clear} %", 120),),
        "At this rate memory will run out and the work will fail.",
        "Save the work before memory runs out, and check what is kept at each step.",
        "leak_seconds", "seconds", weight=10,
    ),
    Rule(
        "high_usage", "In use", Subject.DEVICE,
        (Rung(INFO, "utilisation above {high_usage_percent} %", 60, "{high_usage_clear} %", 60,
              notify=False),),
        "It is in use: worth knowing before you start.",
        "Nothing to do: this is normal.", "high_usage_percent", "percent",
    ),
)  # fmt: skip

NODE_RULES = (
    Rule(
        "node_cpu", "Node CPU busy", Subject.NODE,
        (Rung(INFO, "{node_cpu_percent} % busy", 600, "{node_cpu_clear} %", 120, notify=False),),
        "Devices wait for the CPU that prepares their data.",
        "Use fewer or faster loaders, or more cores.", "node_cpu_percent", "percent", weight=3,
    ),
    Rule(
        "node_memory", "Node memory nearly full", Subject.NODE,
        (
            Rung(WARNING, "{node_memory_percent} % in use", 120, "{node_memory_clear} %", 120),
            Rung(CRITICAL, "{node_memory_critical} % in use", 60,
                 "{node_memory_critical_clear} %", 120),
        ),
        "The system kills processes when it runs out of memory.",
        "See what uses it: ps aux --sort -rss | head", "node_memory_percent", "percent", weight=11,
    ),
    Rule(
        "node_disk", "A disk is nearly full", Subject.NODE,
        (
            Rung(WARNING, "a disk of {disk_least_gib} GiB or more has {node_disk_percent} % used "
                 "and less than {disk_free_gib} GiB free", 300,
                 "none with {disk_clear} % used and less than {disk_clear_free_gib} GiB free", 300),
            Rung(CRITICAL, "{disk_critical} % used and less than {disk_critical_free_gib} GiB free",
                 60, "none with {disk_critical_clear} % used and less than "
                 "{disk_critical_clear_free_gib} GiB free", 300),
        ),
        "Checkpoints, logs and the history cannot be written to a full disk.",
        "Free some space: du -xh --max-depth 2 MOUNT | sort -h | tail", "node_disk_percent",
        "percent", weight=9,
    ),
    Rule(
        "store", "History not written", Subject.ANDON,
        (Rung(WARNING, "the store reports a problem", 30, "it reports none", 60),),
        "What happens now will be missing from the history.", "Check the disk: andon doctor",
        weight=6,
    ),
    Rule(
        "sampler", "Readings missed", Subject.ANDON,
        (Rung(WARNING, "the sampler misses readings", 60, "it misses none", 120),),
        "Without readings nothing is monitored.", "See what a reading costs: andon cost", weight=7,
    ),
    Rule(
        "notifier", "Notifier failing", Subject.ANDON,
        (Rung(WARNING, "a notifier reports a problem", 60, "it reports none", 120),),
        "Alerts do not reach people through it.", "Test it: andon alerts test", weight=7,
    ),
)  # fmt: skip

LEASE_RULES = (
    Rule(
        "squatter", "Used outside its lease", Subject.DEVICE,
        (Rung(WARNING, "leased, and used by a process that belongs to no lease on it", 60,
              "none for 60 s, or no longer held", 60, for_figure="squatter_seconds"),),
        "The holder of the lease shares the device without knowing it.",
        "Ask its owner to lease a device: andon run -- COMMAND",
        "squatter_seconds", "bytes", needs=Precondition.LEASES, weight=4,
    ),
    Rule(
        "idle_lease", "Idle lease", Subject.LEASE,
        (Rung(WARNING, "the utilisation of all its devices is 0", 1800,
              "one in use for 60 s, or released", 60, for_figure="idle_lease_seconds"),),
        "Others wait for devices that are not in use.", "Release it: andon release ID",
        "idle_lease_seconds", "seconds", needs=Precondition.LEASES, weight=2,
    ),
    Rule(
        "orphan", "Orphaned lease", Subject.LEASE,
        (Rung(WARNING, "its holder exited but its processes still run", 60, "they ended", 60,
              for_figure="orphan_seconds"),),
        "Its devices are withheld from others.",
        "Stop what is still running to free the devices: andon leases",
        "orphan_seconds", "seconds", needs=Precondition.LEASES, weight=4,
    ),
    Rule(
        "leftover_memory", "Memory left by a lease", Subject.DEVICE,
        (Rung(WARNING, "memory stays in use after the lease that held it ended", 60,
              "none for 60 s, or leased again", 60, for_figure="leftover_memory_seconds"),),
        "The device is withheld: the next holder would get less memory than reserved.",
        "Find out who has it open: sudo fuser -v /dev/nvidia*",
        "leftover_memory_seconds", "bytes", needs=Precondition.LEASES, weight=5,
    ),
)  # fmt: skip

RULES: tuple[Rule, ...] = (*DEVICE_RULES, *NODE_RULES, *LEASE_RULES)
"""Every rule."""
BY_NAME = {rule.name: rule for rule in RULES}
