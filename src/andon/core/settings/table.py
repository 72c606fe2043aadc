"""Every setting: where it is written, what it may be, what it does, and its default."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from andon.core.settings.kinds import (
    FOLDER,
    LABELS,
    NAMES,
    NUMBER,
    NUMBER_OR_OFF,
    QUIET,
    RULES,
    SCRIPTS,
    SECONDS,
    SECONDS_OR_OFF,
    TEXT,
    WHOLE,
    WORD,
    YES_OR_NO,
    ValueKind,
)

if TYPE_CHECKING:  # read only where the file has such a table: every start imports this module
    from andon.core.settings.alerts import NotifierSettings, OverrideSettings


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person may choose; the defaults are here and nowhere else."""

    node: str = ""
    root: str = "/"
    backends: tuple[str, ...] = ("auto",)
    simulate: int = 0
    simulate_seed: int = 1
    simulate_scenario: str = "mixed"
    simulate_faults: tuple[str, ...] = ()
    replay: str = ""
    replay_speed: float = 1.0
    replay_loop: bool = False
    interval_seconds: float = 1.0
    deadline_seconds: float = 1.0
    cache_seconds: float = 2.0
    score_memory_weight: float = 0.6
    score_utilization_weight: float = 0.4
    share_labels: tuple[str, ...] = ()
    color: str = "auto"
    history_path: str = ""
    history_flush_seconds: float = 5.0
    history_raw_days: float = 7.0
    history_minute_days: float = 90.0
    history_hour_days: float = 730.0
    history_max_megabytes: int = 250
    exporter_prefix: str = "andon"
    exporter_host: str = "127.0.0.1"
    exporter_port: int = 26367
    alerts_thermal_celsius: float | None = 80.0
    alerts_thermal_margin_celsius: float = 5.0
    alerts_thermal_notify_celsius: float = 90.0
    alerts_thermal_critical_celsius: float = 95.0
    alerts_memory_percent: float | None = 90.0
    alerts_power_percent: float | None = 95.0
    alerts_idle_seconds: float | None = 300.0
    alerts_high_usage_percent: float | None = 50.0
    alerts_clock_loss_percent: float | None = 20.0
    alerts_clock_loss_default_limit_percent: float = 35.0
    alerts_fan_celsius: float | None = 70.0
    alerts_unattributed_percent: float | None = 10.0
    alerts_unattributed_bytes: float = float(2**30)
    alerts_leak_seconds: float | None = 3600.0
    alerts_leak_percent: float = 50.0
    alerts_node_cpu_percent: float | None = 95.0
    alerts_node_memory_percent: float | None = 95.0
    alerts_node_disk_percent: float | None = 90.0
    alerts_squatter_seconds: float | None = 60.0
    alerts_idle_lease_seconds: float | None = 1800.0
    alerts_orphan_seconds: float | None = 60.0
    alerts_leftover_memory_seconds: float | None = 60.0
    alerts_disabled_rules: tuple[str, ...] = ()
    alerts_renotify_seconds: float = 14_400.0
    alerts_minimum_level: str = "warning"
    alerts_quiet_hours: str = ""
    alerts_time_zone: str = ""
    alerts_board_url: str = ""
    alerts_overrides: "tuple[OverrideSettings, ...]" = ()
    alerts_notifiers: "tuple[NotifierSettings, ...]" = ()


@dataclass(frozen=True, slots=True)
class Field:
    """One row of the table."""

    name: str
    place: str  # section.key in the file
    variable: str
    kind: ValueKind
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    option: str = ""  # the flag, where it is not the variable's name

    @property
    def flag(self) -> str:
        return self.option or "--" + self.variable.removeprefix("ANDON_").lower().replace("_", "-")

    @property
    def default(self) -> object:
        return _DEFAULTS[self.name]


_DEFAULTS: dict[str, object] = {f.name: f.default for f in fields(Settings)}


def _alert(
    name: str,
    kind: ValueKind,
    help: str,  # noqa: A002 (as in a Field)
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Field:
    place, variable = f"alerts.{name}", f"ANDON_ALERTS_{name.upper()}"
    return Field(f"alerts_{name}", place, variable, kind, help, low, high, choices)


FIELDS = (
    Field("node", "node.name", "ANDON_NODE", TEXT, "the node's name; empty means its host name"),
    Field("root", "node.root", "ANDON_ROOT", FOLDER, "where the host's /proc and /sys are mounted"),
    Field(
        "backends", "devices.backends", "ANDON_BACKENDS", NAMES,
        'the backends that are asked; "auto" means all that find something',
    ),
    Field(
        "simulate", "simulation.devices", "ANDON_SIMULATE", WHOLE,
        "how many simulated devices are shown instead of real ones", 0, 512,
    ),
    Field(
        "simulate_seed", "simulation.seed", "ANDON_SIMULATE_SEED", WHOLE,
        "the same seed gives the same simulation",
    ),
    Field(
        "simulate_scenario", "simulation.scenario", "ANDON_SIMULATE_SCENARIO", TEXT,
        "what the simulated devices do",
    ),
    Field(
        "simulate_faults", "simulation.faults", "ANDON_SIMULATE_FAULTS", SCRIPTS,
        'what goes wrong with them, such as ["lost:2@10", "hung:3@5..30"]',
    ),
    Field(
        "replay", "replay.file", "ANDON_REPLAY", TEXT,
        "a recorded file that is played instead of reading this node",
    ),
    Field(
        "replay_speed", "replay.speed", "ANDON_REPLAY_SPEED", NUMBER,
        "how many times as fast as it was recorded", 0.01, 1000,
    ),
    Field(
        "replay_loop", "replay.loop", "ANDON_REPLAY_LOOP", YES_OR_NO,
        "whether it begins again when it has ended",
    ),
    Field(
        "interval_seconds", "sampling.interval", "ANDON_INTERVAL", SECONDS,
        "the time from one look at the devices to the next", 0.1, 3600,
    ),
    Field(
        "deadline_seconds", "sampling.deadline", "ANDON_DEADLINE", SECONDS,
        "how long a device may take to answer before it counts as stale", 0.1, 60,
    ),
    Field(
        "cache_seconds", "sampling.cache", "ANDON_CACHE", SECONDS,
        "how long an answer may be given again instead of a new look", 0, 3600,
    ),
    Field(
        "score_memory_weight", "score.memory_weight", "ANDON_SCORE_MEMORY_WEIGHT", NUMBER,
        "how much free memory counts when a device is chosen", 0, 1,
    ),
    Field(
        "score_utilization_weight", "score.utilization_weight",
        "ANDON_SCORE_UTILIZATION_WEIGHT", NUMBER,
        "how much idleness counts when a device is chosen", 0, 1,
    ),
    Field(
        "share_labels", "share.labels", "ANDON_SHARE_LABELS", LABELS,
        "labels of devices by index or UUID, for --label and --prefer",
    ),
    Field(
        "color", "display.color", "ANDON_COLOR", TEXT,
        "whether the output is coloured", choices=("auto", "always", "never"),
    ),
    Field(
        "history_path", "history.path", "ANDON_HISTORY", TEXT,
        'the file of the history; empty means andon/history.db in the state folder, '
        '":memory:" keeps it in memory alone',
    ),
    Field(
        "history_flush_seconds", "history.flush", "ANDON_HISTORY_FLUSH", SECONDS,
        "how often what was read is committed: at most this much is lost to a crash", 0.1, 60,
    ),
    Field(
        "history_raw_days", "history.raw_days", "ANDON_HISTORY_RAW_DAYS", NUMBER,
        "how many days every single reading is kept", 0.25, 3650,
    ),
    Field(
        "history_minute_days", "history.minute_days", "ANDON_HISTORY_MINUTE_DAYS", NUMBER,
        "how many days least, mean and most of each minute are kept", 11, 3650,
    ),
    Field(
        "history_hour_days", "history.hour_days", "ANDON_HISTORY_HOUR_DAYS", NUMBER,
        "how many days least, mean and most of each hour are kept, and who used a device",
        11, 36500,
    ),
    Field(
        "history_max_megabytes", "history.max_megabytes", "ANDON_HISTORY_MAX_MEGABYTES", WHOLE,
        "how large the history may grow; above that the finest readings go first", 16, 1_000_000,
    ),
    Field(
        "exporter_prefix", "exporter.prefix", "ANDON_EXPORTER_PREFIX", WORD,
        "how the name of every metric begins, the server's and the exporter's", option="--prefix",
    ),
    Field(
        "exporter_host", "exporter.host", "ANDON_EXPORTER_HOST", TEXT,
        "the address that andon exporter listens on", option="--host",
    ),
    Field(
        "exporter_port", "exporter.port", "ANDON_EXPORTER_PORT", WHOLE,
        "the port of andon exporter; 0 takes any free one", 0, 65535, option="--port",
    ),
    _alert(
        "thermal_celsius", NUMBER_OR_OFF,
        "the temperature from which a device shows as too hot", 0, 150,
    ),
    _alert(
        "thermal_margin_celsius", NUMBER,
        "how far below its own slowdown temperature people are told", 0, 50,
    ),
    _alert(
        "thermal_notify_celsius", NUMBER,
        "the same for a device that states no slowdown temperature", 0, 150,
    ),
    _alert(
        "thermal_critical_celsius", NUMBER,
        "the temperature that is critical for such a device", 0, 150,
    ),
    _alert(
        "memory_percent", NUMBER_OR_OFF,
        "the share of its memory from which a device shows as full", 1, 100,
    ),
    _alert(
        "power_percent", NUMBER_OR_OFF,
        "the share of its limit from which its power is shown", 1, 100,
    ),
    _alert("idle_seconds", SECONDS_OR_OFF, "how long a device may be held and idle", 1, 31_536_000),
    _alert(
        "high_usage_percent", NUMBER_OR_OFF,
        "the utilization from which a device shows as in use", 0, 100,
    ),
    _alert(
        "clock_loss_percent", NUMBER_OR_OFF,
        "how much of the clock a power cap may cost", 1, 100,
    ),
    _alert(
        "clock_loss_default_limit_percent", NUMBER,
        "the same at the limit that the device was built for", 1, 100,
    ),
    _alert("fan_celsius", NUMBER_OR_OFF, "the temperature from which a fan must turn", 0, 150),
    _alert(
        "unattributed_percent", NUMBER_OR_OFF,
        "how much of its memory no process may explain", 0, 100,
    ),
    _alert(
        "unattributed_bytes", NUMBER,
        "at least so much memory, whatever its share", 0, 10_000_000_000_000,
    ),
    _alert(
        "leak_seconds", SECONDS_OR_OFF,
        "growing memory that is full within this time is told", 1, 31_536_000,
    ),
    _alert("leak_percent", NUMBER, "how full the memory must be for that", 0, 100),
    _alert("node_cpu_percent", NUMBER_OR_OFF, "how busy the node's CPU may be", 1, 100),
    _alert("node_memory_percent", NUMBER_OR_OFF, "how full the node's own memory may be", 1, 100),
    _alert("node_disk_percent", NUMBER_OR_OFF, "how full a disk of the node may be", 1, 100),
    _alert(
        "squatter_seconds", SECONDS_OR_OFF,
        "how long somebody may compute on a device that another has leased", 1, 31_536_000,
    ),
    _alert(
        "idle_lease_seconds", SECONDS_OR_OFF,
        "how long a lease may hold devices of which none works", 1, 31_536_000,
    ),
    _alert(
        "orphan_seconds", SECONDS_OR_OFF,
        "how long work may outlive the holder of its lease", 1, 31_536_000,
    ),
    _alert(
        "leftover_memory_seconds", SECONDS_OR_OFF,
        "how long memory may stay in use after its lease ended", 1, 31_536_000,
    ),
    _alert("disabled_rules", RULES, "rules that do not count on this node"),
    _alert(
        "renotify_seconds", SECONDS,
        "how long until the first reminder of what still fires; 0 for none", 0, 31_536_000,
    ),
    _alert(
        "minimum_level", TEXT,
        "the least level that people are told", choices=("warning", "critical"),
    ),
    _alert(
        "quiet_hours", QUIET,
        "when only what is critical is told; the rest waits until they end",
    ),
    _alert("time_zone", TEXT, "the time zone of messages and quiet hours; empty means this node's"),
    _alert("board_url", TEXT, "the address of the board that messages link to"),
)  # fmt: skip
"""The table; docs, `andon config` and the checks are made from it."""
