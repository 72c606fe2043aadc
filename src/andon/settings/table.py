"""Every setting: its place in the file, allowed values, meaning and default."""

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from andon.settings.kinds import (
    FOLDER,
    LABELS,
    NAMES,
    NUMBER,
    ORIGINS,
    QUIET,
    ROLES,
    RULES,
    SCRIPTS,
    SECONDS,
    STORE,
    TEXT,
    WEEKLY,
    WHOLE,
    WORD,
    YES_OR_NO,
    ValueKind,
    repr_without,
)

if TYPE_CHECKING:
    from andon.settings.alerts import NotifierSettings, OverrideSettings
    from andon.settings.clusters import ClusterSettings
    from andon.settings.exports import ExportSettings


class Settings(Struct, frozen=True):
    """The values of all settings; the defaults are here and nowhere else."""

    __repr__ = repr_without("history_store")
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
    score_link_weight: float = 0.2
    share_labels: tuple[str, ...] = ()
    color: str = "auto"
    history_store: str = ""  # it may contain a password
    history_flush_seconds: float = 5.0
    history_raw_days: float = 7.0
    history_minute_days: float = 90.0
    history_hour_days: float = 730.0
    history_max_megabytes: int = 250
    runs_keep_days: float = 365.0
    runs_megabytes: int = 2000
    work_grace_seconds: float = 10.0
    map_gpus: int = 1024
    containers_engine: str = "auto"
    jobs_log_megabytes: int = 100
    jobs_keep_days: float = 30.0
    jobs_idle_seconds: float = 60.0
    jobs_submit_over_http: bool = False
    jobs_on: str = ""
    notify_me_jobs: str = "no"
    notify_me_turn: bool = False
    notify_me_alerts: bool = False
    notify_me_by: tuple[str, ...] = ()
    reports_weekly: str = ""
    reports_by: tuple[str, ...] = ()
    server_allow_origins: tuple[str, ...] = ()
    server_sign_in: bool = True
    server_proxy: str = ""
    server_proxy_roles: tuple[str, ...] = ()
    hub_unencrypted: bool = False
    hub_metrics: str = "nodes"
    exporter_prefix: str = "andon"
    exporter_host: str = "127.0.0.1"
    exporter_port: int = 26367
    runs_price_per_kwh: float = 0.0
    runs_currency: str = ""
    runs_co2_grams_per_kwh: float = 0.0
    alerts_figures: tuple[tuple[str, float | None], ...] = ()  # those that were set; None is off
    alerts_disabled_rules: tuple[str, ...] = ()
    alerts_renotify_seconds: float = 14_400.0
    alerts_minimum_level: str = "warning"
    alerts_quiet_hours: str = ""
    alerts_time_zone: str = ""
    alerts_board_url: str = ""
    alerts_overrides: "tuple[OverrideSettings, ...]" = ()
    alerts_notifiers: "tuple[NotifierSettings, ...]" = ()
    clusters: "tuple[ClusterSettings, ...]" = ()
    exports: "tuple[ExportSettings, ...]" = ()
    ssh_andon: str = ""
    ssh_groups: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Field(Struct, frozen=True):
    """One row of the table."""

    name: str
    place: str  # section.key in the file
    variable: str
    kind: ValueKind
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    option: str = ""  # the flag, if it does not follow from the variable
    figure: float | None = None  # the default of a figure, which is no field of `Settings`

    @property
    def flag(self) -> str:
        return self.option or "--" + self.variable.removeprefix("ANDON_").lower().replace("_", "-")

    @property
    def default(self) -> object:
        return _DEFAULTS[self.name] if self.figure is None else self.figure


_DEFAULTS: dict[str, object] = asdict(Settings())


def _alert(
    name: str,
    kind: ValueKind,
    help: str,  # noqa: A002 (the same name in Field)
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
        'the backends to use; "auto" means all that find a device',
    ),
    Field(
        "simulate", "simulation.devices", "ANDON_SIMULATE", WHOLE,
        "the number of simulated devices to show instead of real ones", 0, 512,
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
        'faults to simulate, such as ["lost:2@10", "hung:3@5..30"]',
    ),
    Field(
        "replay", "replay.file", "ANDON_REPLAY", TEXT,
        "a recorded file to play instead of reading this node",
    ),
    Field(
        "replay_speed", "replay.speed", "ANDON_REPLAY_SPEED", NUMBER,
        "playback speed; 1 is real time", 0.01, 1000,
    ),
    Field(
        "replay_loop", "replay.loop", "ANDON_REPLAY_LOOP", YES_OR_NO,
        "whether to start again at the end of the recording",
    ),
    Field(
        "interval_seconds", "sampling.interval", "ANDON_INTERVAL", SECONDS,
        "time between two samples", 0.1, 3600,
    ),
    Field(
        "deadline_seconds", "sampling.deadline", "ANDON_DEADLINE", SECONDS,
        "how long a device may take to respond before it counts as not responding", 0.1, 60,
    ),
    Field(
        "cache_seconds", "sampling.cache", "ANDON_CACHE", SECONDS,
        "how long a snapshot may be reused instead of taking a new one", 0, 3600,
    ),
    Field(
        "score_memory_weight", "score.memory_weight", "ANDON_SCORE_MEMORY_WEIGHT", NUMBER,
        "weight of free memory when devices are chosen", 0, 1,
    ),
    Field(
        "score_utilization_weight", "score.utilization_weight",
        "ANDON_SCORE_UTILIZATION_WEIGHT", NUMBER,
        "weight of low utilisation when devices are chosen", 0, 1,
    ),
    Field(
        "score_link_weight", "score.link_weight", "ANDON_SCORE_LINK_WEIGHT", NUMBER,
        "weight of close links (NVLink, PCIe switch, NUMA) when several devices are chosen; 0 "
        "ignores them", 0, 1,
    ),
    Field(
        "share_labels", "share.labels", "ANDON_SHARE_LABELS", LABELS,
        "labels of devices (quiet:3, quiet:6:0, quiet:GPU-…), for --label and --prefer",
    ),
    Field(
        "color", "display.color", "ANDON_COLOR", TEXT,
        "when to colour the output", choices=("auto", "always", "never"),
    ),
    Field(
        "history_store", "history.store", "ANDON_HISTORY", STORE,
        "where history and alerts are stored; empty means history.db in the state folder, "
        '"memory:" keeps them in memory only; a plain path is an SQLite file; '
        "postgresql://HOST/DATABASE holds several machines, and the index of runs",
        option="--store",
    ),
    Field(
        "history_flush_seconds", "history.flush", "ANDON_HISTORY_FLUSH", SECONDS,
        "how often readings are committed; a crash loses at most this much", 0.1, 60,
    ),
    Field(
        "history_raw_days", "history.raw_days", "ANDON_HISTORY_RAW_DAYS", NUMBER,
        "how many days to keep every reading", 0.25, 3650,
    ),
    Field(
        "history_minute_days", "history.minute_days", "ANDON_HISTORY_MINUTE_DAYS", NUMBER,
        "how many days to keep minimum, mean and maximum of each minute", 11, 3650,
    ),
    Field(
        "history_hour_days", "history.hour_days", "ANDON_HISTORY_HOUR_DAYS", NUMBER,
        "how many days to keep minimum, mean and maximum of each hour, and who used a device",
        11, 36500,
    ),
    Field(
        "history_max_megabytes", "history.max_megabytes", "ANDON_HISTORY_MAX_MEGABYTES", WHOLE,
        "maximum size of the history; beyond it the finest readings are deleted first",
        16, 1_000_000,
    ),
    Field(
        "runs_keep_days", "runs.keep_days", "ANDON_RUNS_KEEP_DAYS", NUMBER,
        "how many days andon gc keeps the records of runs in the state folder; tagged ones and "
        "those of baselines are always kept",
        1, 36500,
    ),
    Field(
        "runs_megabytes", "runs.megabytes", "ANDON_RUNS_MEGABYTES", WHOLE,
        "maximum size of these records; beyond it andon gc deletes the oldest", 1, 10_000_000,
    ),
    Field(
        "work_grace_seconds", "work.grace", "ANDON_WORK_GRACE", SECONDS,
        "time between SIGTERM and SIGKILL for a command or function that andon ends", 0, 86_400,
    ),
    Field(
        "map_gpus", "map.gpus", "ANDON_MAP_GPUS", WHOLE,
        "the most GPUs that andon map takes at once, whatever is asked for", 1, 1024,
    ),
    Field(
        "containers_engine", "containers.engine", "ANDON_CONTAINERS_ENGINE", TEXT,
        "the engine of --image; auto is Docker where it is installed, else Podman",
        choices=("auto", "docker", "podman"),
    ),
    Field(
        "jobs_log_megabytes", "jobs.log_megabytes", "ANDON_JOBS_LOG_MEGABYTES", WHOLE,
        "maximum size of a job's output; beyond it only the head and the tail are kept",
        1, 1_000_000,
    ),
    Field(
        "jobs_keep_days", "jobs.keep_days", "ANDON_JOBS_KEEP_DAYS", NUMBER,
        "how many days andon gc keeps jobs that have ended, with their output", 0.01, 36500,
    ),
    Field(
        "jobs_idle_seconds", "jobs.idle", "ANDON_JOBS_IDLE", SECONDS,
        "how long the job dispatcher keeps running after the last job has ended", 0, 86_400,
    ),
    Field(
        "jobs_submit_over_http", "jobs.submit_over_http", "ANDON_JOBS_SUBMIT_OVER_HTTP", YES_OR_NO,
        "accept jobs over the network, for the server's user; root's server never does",
    ),
    Field(
        "jobs_on", "jobs.on", "ANDON_JOBS_ON", TEXT,
        "the cluster that submit, run and map use without --on; empty means this machine",
    ),
    Field(
        "ssh_andon", "ssh.andon", "ANDON_SSH_ANDON", TEXT,
        "where andon is on the hosts of --ssh, if not on their PATH; ~/ is the home there",
    ),
    Field(
        "notify_me_jobs", "notify.me.jobs", "ANDON_NOTIFY_ME_JOBS", TEXT,
        "notify you of the end of your jobs and runs: all, or those that fail",
        choices=("no", "end", "fail"),
    ),
    Field(
        "notify_me_turn", "notify.me.turn", "ANDON_NOTIFY_ME_TURN", YES_OR_NO,
        "notify you when a job of yours starts, or a command that waited has its GPUs",
    ),
    Field(
        "notify_me_alerts", "notify.me.alerts", "ANDON_NOTIFY_ME_ALERTS", YES_OR_NO,
        "your own andon serve shows alerts about your processes and devices on your desktop, and "
        "tells you of a reservation ahead",
    ),
    Field(
        "notify_me_by", "notify.me.by", "ANDON_NOTIFY_ME_BY", NAMES,
        "by which notifiers, or desktop; empty: all that are configured, else the desktop",
    ),
    Field(
        "reports_weekly", "reports.weekly", "ANDON_REPORTS_WEEKLY", WEEKLY,
        "when a server sends the digest of a week, such as Mon 08:00; empty: never",
    ),
    Field(
        "reports_by", "reports.by", "ANDON_REPORTS_BY", NAMES,
        "by which notifiers; empty: all. One with owners gets what these users used",
    ),
    Field(
        "server_allow_origins", "server.allow_origins", "ANDON_SERVER_ALLOW_ORIGINS", ORIGINS,
        "other sites whose pages may use the server, each with its exact origin",
    ),
    Field(
        "server_sign_in", "server.sign_in", "ANDON_SERVER_SIGN_IN", YES_OR_NO,
        "let the users of the server's machine sign in as themselves: andon open",
    ),
    Field(
        "server_proxy", "server.proxy", "ANDON_SERVER_PROXY", TEXT,
        "the address of a proxy that signs people in: its X-Forwarded-User is believed",
    ),
    Field(
        "server_proxy_roles", "server.proxy_roles", "ANDON_SERVER_PROXY_ROLES", ROLES,
        "what a group of X-Forwarded-Groups may do: read, operate or admin; * is everyone",
    ),
    Field(
        "hub_unencrypted", "hub.unencrypted", "ANDON_HUB_UNENCRYPTED", YES_OR_NO,
        "send this node's token to a hub with http://, where nobody else can read on the network",
    ),
    Field(
        "hub_metrics", "hub.metrics", "ANDON_HUB_METRICS", TEXT,
        "what a hub's /metrics and exports have of its nodes: devices are nodes and each GPU",
        choices=("off", "nodes", "devices"),
    ),
    Field(
        "exporter_prefix", "exporter.prefix", "ANDON_EXPORTER_PREFIX", WORD,
        "prefix of every metric name, for the server and the exporter", option="--prefix",
    ),
    Field(
        "exporter_host", "exporter.host", "ANDON_EXPORTER_HOST", TEXT,
        "the address andon exporter listens on", option="--host",
    ),
    Field(
        "exporter_port", "exporter.port", "ANDON_EXPORTER_PORT", WHOLE,
        "the port of andon exporter; 0 takes any free one", 0, 65535, option="--port",
    ),
    Field(
        "runs_price_per_kwh", "runs.price_per_kwh", "ANDON_RUNS_PRICE_PER_KWH", NUMBER,
        "what a kilowatt hour costs, for the cost in reports; 0 leaves it out", 0, 1_000_000,
    ),
    Field(
        "runs_currency", "runs.currency", "ANDON_RUNS_CURRENCY", TEXT,
        "the currency of runs.price_per_kwh, such as EUR",
    ),
    Field(
        "runs_co2_grams_per_kwh", "runs.co2_grams_per_kwh", "ANDON_RUNS_CO2_GRAMS_PER_KWH", NUMBER,
        "how much CO2 a kilowatt hour causes, for the CO2 in reports; 0 leaves it out", 0, 10_000,
    ),
    _alert("disabled_rules", RULES, "rules that are off on this node"),
    _alert(
        "renotify_seconds", SECONDS,
        "time until the first reminder of an alert that still fires; 0 for none", 0, 31_536_000,
    ),
    _alert(
        "minimum_level", TEXT,
        "the lowest level that notifies people", choices=("warning", "critical"),
    ),
    _alert(
        "quiet_hours", QUIET,
        "when only critical alerts are sent; others are held until they end",
    ),
    _alert("time_zone", TEXT, "the time zone of messages and quiet hours; empty means this node's"),
    _alert("board_url", TEXT, "the board's address, for links in messages"),
)  # fmt: skip
"""The table, without the figures of the conditions: see `figure_fields`."""


# The port at which an andon server is expected.

USUAL_PORT = 26366  # A-N-D-O-N on a phone
PORT_VARIABLE = "ANDON_PORT"
