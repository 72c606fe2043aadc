"""The catalogue of alert rules, as data: what each watches, for how long, and what to do."""

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
    """What must exist before a rule can judge anything."""

    READINGS = "readings"
    LEASES = "leases"


ASLEEP = {Precondition.LEASES: "a server that follows the lease book judges it: andon serve"}
"""Why a rule that needs this is asleep, where it does not exist."""
READINGS = frozenset({Precondition.READINGS})
"""What one look at the devices has."""
SERVED = frozenset({Precondition.READINGS, Precondition.LEASES})
"""What a server has, beside the devices: it follows the lease book."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a rule: a level, its condition, and how long both sides of it must be seen."""

    level: Level
    condition: str  # in words, for people; the judges hold it in code
    for_seconds: float
    clear_condition: str
    clear_seconds: float
    notify: bool = True
    for_figure: str | None = None  # the threshold that sets `for_seconds`, where one does


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the catalogue, its rungs from the lowest to the highest level."""

    name: str
    title: str
    subject_kind: Subject
    rungs: tuple[Rung, ...]
    why: str
    advice: str
    threshold: str | None = None  # the field of `Thresholds` that a person thinks of first
    unit: str = ""
    needs: Precondition = Precondition.READINGS
    weight: int = 0  # 0 to 19: what is more urgent among alerts of one level
    momentary: bool = False  # it counts events: calm is the time since the last one

    @property
    def level(self) -> Level:
        """The highest level that it can reach."""
        return max((rung.level for rung in self.rungs), key=lambda level: level.rank)

    @property
    def for_seconds(self) -> float:
        return self.rungs[0].for_seconds

    @property
    def clear_seconds(self) -> float:
        return self.rungs[0].clear_seconds


def inactive_reason(rule: Rule, awake: frozenset[Precondition] = READINGS) -> str | None:
    """Why a rule judges nothing here; None where it does."""
    return ASLEEP[rule.needs] if rule.needs not in awake else None


def severity(level: Level, rule: Rule) -> int:
    """0 to 100: the level decides, and among alerts of one level what is more urgent."""
    return {Level.INFO: 10, Level.WARNING: 40, Level.CRITICAL: 80}[level] + rule.weight


INFO, WARNING, CRITICAL = Level.INFO, Level.WARNING, Level.CRITICAL
COOLING = (
    "Look at the cooling: dust, blocked slots, a warm room, a neighbouring card. Until then a "
    "lower power limit keeps it cooler."
)

DEVICE_RULES = (
    Rule(
        "thermal", "Too hot", Subject.DEVICE,
        (
            Rung(WARNING, "at 80 °C, or 5 °C below its own slowdown if that is less", 60,
                 "5 °C below that", 120, notify=False),
            Rung(WARNING, "that, and within 5 °C of its slowdown, or a thermal reason", 60,
                 "as above", 120),
            Rung(CRITICAL, "that, and at its slowdown, or slowed down by the hardware", 30,
                 "3 °C below its slowdown, and not slowed down by the hardware", 120),
        ),
        "Heat shortens a device's life, and from its slowdown temperature on it costs speed. "
        "A device that states no slowdown temperature is told from 90 °C, critical from 95 °C.",
        COOLING, "thermal_celsius", "celsius", weight=18,
    ),
    Rule(
        "memory", "Memory nearly full", Subject.DEVICE,
        (Rung(INFO, "90 % of its memory in use", 60, "87 %", 120, notify=False),),
        "Training and inference servers fill the memory by design: worth knowing, no trouble.",
        "Nothing, if the work is meant to: the next allocation may fail.",
        "memory_percent", "percent", weight=6,
    ),
    Rule(
        "power", "At its power limit", Subject.DEVICE,
        (Rung(INFO, "95 % of the power limit in force", 60, "90 %", 120, notify=False),),
        "A full load looks like this: worth knowing, no trouble.",
        "Nothing: a full load does this.", "power_percent", "percent", weight=4,
    ),
    Rule(
        "idle", "Held and idle", Subject.DEVICE,
        (Rung(WARNING, "a lease, job or run holds it, and it does nothing", 300,
              "it works for 30 s, or nobody holds it", 30, for_figure="idle_seconds"),),
        "Somebody holds it and nothing runs on it, while others may wait.",
        "Ask its owner whether it is still needed: giving the lease back frees it.",
        "idle_seconds", "seconds", needs=Precondition.LEASES, weight=2,
    ),
    Rule(
        "throttle_thermal", "Slowed down by heat", Subject.DEVICE,
        (
            Rung(WARNING, "the driver names heat for its clocks", 60, "it does not", 120),
            Rung(CRITICAL, "the hardware slows it down for heat", 60, "it does not", 120),
        ),
        "Heat costs speed now, whatever the temperature of the chip: its memory may be the cause.",
        COOLING, weight=16,
    ),
    Rule(
        "throttle_power", "The power cap costs speed", Subject.DEVICE,
        (Rung(WARNING, "the power cap costs a busy device more than 20 % of its clock, or more "
              "than 35 % at the limit that it was built for", 300, "5 points less", 120),),
        "The cap takes more of the clock than a full load does by itself.",
        "Raise the limit to the device's default, if power and cooling allow it.",
        "clock_loss_percent", "percent", weight=8,
    ),
    Rule(
        "throttle_hardware", "Slowed down by the hardware", Subject.DEVICE,
        (
            Rung(WARNING, "the hardware slows it down and names neither heat nor power", 30,
                 "it does not", 120),
            Rung(CRITICAL, "the power supply brakes it", 30, "it does not", 120),
        ),
        "A cable, a power supply or the board itself takes its speed away.",
        "Look at its power cables and supplies first, then at the cooling: "
        "sudo nvidia-smi -q -d PERFORMANCE", weight=14,
    ),
    Rule(
        "device_lost", "Lost", Subject.DEVICE,
        (Rung(CRITICAL, "the driver says that it is gone", 10, "it answers, or sleeps", 60),),
        "The device is gone; what ran on it has failed.",
        "Look for the cause: sudo dmesg | grep -i -e xid -e nvrm. Then reset it, or reboot.",
        weight=19,
    ),
    Rule(
        "driver_hung", "Does not answer", Subject.DEVICE,
        (
            Rung(WARNING, "the driver has not answered for it", 60, "it answers, or sleeps", 60),
            Rung(CRITICAL, "the driver has not answered for it", 300, "it answers, or sleeps", 60),
        ),
        "Work there stands still, and it cannot be watched. Where all devices of a vendor are "
        "silent, one alert speaks for them.",
        "The kernel's log may say why: sudo dmesg. If it stays so, reboot the node.", weight=17,
    ),
    Rule(
        "ecc", "Memory errors", Subject.DEVICE,
        (
            Rung(INFO, "errors from before andon first saw it", 0, "24 h without another, or the "
                 "counter began anew 60 s ago", DAY_SECONDS, notify=False),
            Rung(CRITICAL, "the count of uncorrected errors rose", 0, "24 h without another, or "
                 "the counter began anew 60 s ago", DAY_SECONDS),
        ),
        "The memory gave wrong data that could not be corrected: results may be wrong.",
        "Stop the work there and reset the device; if they come back, have it replaced.",
        unit="errors", weight=15, momentary=True,
    ),
    Rule(
        "xid", "The driver reports an error", Subject.DEVICE,
        (
            Rung(INFO, "an error that is the application's own", 0, "1 h without another, or 60 s "
                 "after a reboot", HOUR_SECONDS, notify=False),
            Rung(WARNING, "any other error", 0, "24 h without another, or 60 s after a reboot",
                 DAY_SECONDS),
            Rung(CRITICAL, "an error that means a broken or stuck device", 0, "24 h without "
                 "another, or 60 s after a reboot", DAY_SECONDS),
        ),
        "The driver reports trouble by number; some numbers mean a device that has to be reset.",
        "The message says what this number means.", unit="xid", weight=13, momentary=True,
    ),
    Rule(
        "fan", "The fan stands still", Subject.DEVICE,
        (Rung(WARNING, "its fan does not turn at 70 °C or more", 60, "it turns, or 60 °C", 60),),
        "It is hot and nothing cools it.",
        "Stop the work on it, then look at the fan: its cable, a blocked blade, its bearing.",
        "fan_celsius", "celsius", weight=12,
    ),
    Rule(
        "unattributed_memory", "Memory that no process explains", Subject.DEVICE,
        (
            Rung(INFO, "10 % of its memory, and 1 GiB", 600, "5 %", 120, notify=False),
            Rung(WARNING, "that, while it does nothing", 600, "it works, or the above", 120),
        ),
        "A process that died badly, or one that you may not see, keeps it from others.",
        "Find who has it open: sudo fuser -v /dev/nvidia*", "unattributed_percent", "bytes",
        weight=5,
    ),
    Rule(
        "memory_leak", "Memory keeps growing", Subject.DEVICE,
        (Rung(WARNING, "half full, and over ten minutes a steady rise by 5 % that fills it within "
              "the hour", 60, "no such rise, or two hours, or below 45 %", 120),),
        "At this rate it will be full, and the work then ends.",
        "Save the work before it ends for want of memory, and look for what is kept per step.",
        "leak_seconds", "seconds", weight=10,
    ),
    Rule(
        "high_usage", "In use", Subject.DEVICE,
        (Rung(INFO, "more than 50 % busy", 60, "40 %", 60, notify=False),),
        "Somebody works with it: worth knowing before you start.",
        "Nothing: this is what it is for.", "high_usage_percent", "percent",
    ),
)  # fmt: skip

NODE_RULES = (
    Rule(
        "node_cpu", "The node's CPU is busy", Subject.NODE,
        (Rung(INFO, "95 % busy", 600, "90 %", 120, notify=False),),
        "Devices wait for a CPU that prepares their data.",
        "Fewer or faster loaders, or more cores.", "node_cpu_percent", "percent", weight=3,
    ),
    Rule(
        "node_memory", "The node's memory is nearly full", Subject.NODE,
        (
            Rung(WARNING, "95 % in use", 120, "92 %", 120),
            Rung(CRITICAL, "98 % in use", 60, "96 %", 120),
        ),
        "The system ends processes when it has no memory left.",
        "See who holds it: ps aux --sort -rss | head", "node_memory_percent", "percent", weight=11,
    ),
    Rule(
        "node_disk", "A disk is nearly full", Subject.NODE,
        (
            Rung(WARNING, "a disk of 8 GiB or more has 90 % used and less than 100 GiB free", 300,
                 "none with 88 % used and less than 120 GiB free", 300),
            Rung(CRITICAL, "97 % used and less than 20 GiB free", 60,
                 "none with 95 % used and less than 30 GiB free", 300),
        ),
        "Checkpoints, logs and the history cannot be written to a full disk.",
        "Make room: du -xh --max-depth 2 MOUNT | sort -h | tail", "node_disk_percent", "percent",
        weight=9,
    ),
    Rule(
        "store", "The history is not written", Subject.ANDON,
        (Rung(WARNING, "the store reports a trouble", 30, "it reports none", 60),),
        "What happens now will not be found later.", "Look at the disk: andon doctor", weight=6,
    ),
    Rule(
        "sampler", "Looks are missed", Subject.ANDON,
        (Rung(WARNING, "the sampler misses ticks", 60, "it misses none", 120),),
        "What is not looked at is not watched.", "andon cost says what a look takes.", weight=7,
    ),
    Rule(
        "notifier", "A notifier fails", Subject.ANDON,
        (Rung(WARNING, "a notifier reports a trouble", 60, "it reports none", 120),),
        "Alerts do not reach people by this way.", "Try it: andon alerts test", weight=7,
    ),
)  # fmt: skip

LEASE_RULES = (
    Rule(
        "squatter", "Used outside its lease", Subject.DEVICE,
        (Rung(WARNING, "a lease holds it, and a process computes there that belongs to none", 60,
              "none does for 60 s, or nobody holds it", 60, for_figure="squatter_seconds"),),
        "Whoever holds the lease shares the device without knowing.",
        "Ask its owner to take a device of their own: andon run -- COMMAND",
        "squatter_seconds", "bytes", needs=Precondition.LEASES, weight=4,
    ),
    Rule(
        "idle_lease", "An idle lease", Subject.LEASE,
        (Rung(WARNING, "none of its devices does anything", 1800,
              "one works for 60 s, or it is given back", 60, for_figure="idle_lease_seconds"),),
        "Others wait for devices that nobody uses.", "Give it back: andon release ID",
        "idle_lease_seconds", "seconds", needs=Precondition.LEASES, weight=2,
    ),
    Rule(
        "orphan", "An orphaned lease", Subject.LEASE,
        (Rung(WARNING, "its holder is gone and its work lives on", 60, "its work ended", 60,
              for_figure="orphan_seconds"),),
        "Its devices are withheld from others.",
        "End what is left of it, and the devices are free: andon leases",
        "orphan_seconds", "seconds", needs=Precondition.LEASES, weight=4,
    ),
    Rule(
        "leftover_memory", "Memory of a lease that ended", Subject.DEVICE,
        (Rung(WARNING, "memory stays in use after the lease that held it ended", 60,
              "none for 60 s, or somebody takes it", 60, for_figure="leftover_memory_seconds"),),
        "The device is withheld: the next holder would find less memory than was promised.",
        "Find who has it open: sudo fuser -v /dev/nvidia*",
        "leftover_memory_seconds", "bytes", needs=Precondition.LEASES, weight=5,
    ),
)  # fmt: skip

RULES: tuple[Rule, ...] = (*DEVICE_RULES, *NODE_RULES, *LEASE_RULES)
"""Every rule there is."""
BY_NAME = {rule.name: rule for rule in RULES}
