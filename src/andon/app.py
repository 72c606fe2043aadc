"""The composition root: the only place that reads the configuration and picks adapters."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from andon.core.sampling.masks import VARIABLES, Visibility, visibility
from andon.core.settings.resolution import Resolved, Settings, resolve
from andon.engine.sampling.readers import BackendChoice
from andon.engine.sampling.sampler import NodeIdentity, Sampler
from andon.errors import AndonError, Invalid
from andon.host.folders import expanded
from andon.host.kernel_log import KernelLog
from andon.host.presence import has_nvidia_smi, unreadable, vendors
from andon.host.private_files import is_regular, read_regular
from andon.host.server.state_folder import state_folder as state_folder
from andon.host.system import System, boot_id, node_name
from andon.model.device import Device
from andon.ports import Store
from andon.registry import BACKENDS, is_known, unknown

if TYPE_CHECKING:  # not every command needs alerts and leases
    from andon.core.conditions.rulebook import Rulebook
    from andon.core.notifying.messages import MessageContext
    from andon.core.sampling.self_checks import StoreStats
    from andon.core.settings.alerts import NotifierSettings
    from andon.core.sharing.capacity import Weights
    from andon.engine.alerting.watcher import RoutedNotifier, Watcher
    from andon.engine.sharing.lease_tracker import LeaseTracker
    from andon.ports import AlertStore, Notifier

IN_MEMORY = ":memory:"
LONGEST_CONFIG_BYTES = 1 << 20
LONGEST_SHOWN = 200  # characters of a path in a message
SMI_DEADLINES = 5.0  # the command takes up to a second for eight devices


def config_path(explicit: str | None = None) -> Path | None:
    """The configuration file in use: named, the user's, the system's, or none."""
    named = explicit or os.environ.get("ANDON_CONFIG")
    if named:
        return expanded(named)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser())
    for path in (home / "andon" / "andon.toml", Path("/etc/andon/andon.toml")):
        if is_regular(path):
            return path
    return None


def load_settings(
    flags: Mapping[str, object], config: str | None = None, strict: bool = False
) -> Resolved:
    """Flags, then ANDON_* variables, then the file, then the defaults."""
    path = config_path(config)
    file = None if path is None else (str(path), _read(path))
    return resolve(file, os.environ, flags, strict)


def open_sampler(settings: Settings, masks_may_change: bool = False) -> Sampler:
    """A sampler for what the settings name: this node, a simulation or a recording.

    In another program, the variables that hide devices may change at any time.
    """
    if settings.replay:
        return _replay(settings)
    root = Path(settings.root)
    return Sampler(
        vendors=_vendors(settings, root),
        host=System(root),
        node=NodeIdentity(settings.node or node_name(), boot_id(root)),
        visibility=_VisibleHere(masks_may_change),
        deadline_seconds=settings.deadline_seconds,
        standing_faults=() if settings.simulate else unreadable(),
        kernel_log=None if settings.simulate else KernelLog(root),
    )


def _vendors(settings: Settings, root: Path) -> dict[str, tuple[BackendChoice, ...]]:
    if settings.simulate:
        return {"sim": (BackendChoice("sim", _simulation(settings)),)}
    names = vendors(root) if "auto" in settings.backends else settings.backends
    missing = [name for name in names if not is_known(BACKENDS, name)]
    if missing:
        raise unknown(BACKENDS, *missing, also="auto")
    return {name: _choices(name, settings) for name in names}


def _choices(name: str, settings: Settings) -> tuple[BackendChoice, ...]:
    """nvidia-smi is the fallback if NVIDIA's library cannot be loaded: slower, often installed."""
    options = {} if name == "sim" else {"root": settings.root}
    first = BackendChoice(name, options, SMI_DEADLINES if name == "nvidia_smi" else 1.0)
    if name == "nvidia" and has_nvidia_smi():
        return first, BackendChoice("nvidia_smi", options, SMI_DEADLINES)
    return (first,)


def _replay(settings: Settings) -> Sampler:
    """The recorded node instead of this one: its values and name, and none of our masks."""
    from andon.backends.replay import RecordedHost

    played: dict[str, object] = {
        "path": str(expanded(settings.replay).absolute()),
        "speed": settings.replay_speed,
        "loop": settings.replay_loop,
        "origin": time.time(),
    }
    host = RecordedHost(**played)  # type: ignore[arg-type]
    # Recorded pids must not be looked up on this system, so the root does not exist.
    nowhere = {**played, "root": "/nonexistent"}
    return Sampler(
        vendors={"replay": (BackendChoice("replay", nowhere),)},
        host=host,
        node=NodeIdentity(host.first.node, host.first.boot),
        visibility=_all_visible,
        deadline_seconds=settings.deadline_seconds,
    )


def _all_visible(devices: Sequence[Device]) -> Visibility:
    return visibility(devices, {})


def _simulation(settings: Settings) -> dict[str, object]:
    """Checked here, so that a mistake is reported to the caller and not by a reader later."""
    from andon.core.simulation.scenarios import plan

    plan(settings.simulate, settings.simulate_scenario, (), settings.simulate_faults)
    return {
        "count": settings.simulate,
        "seed": settings.simulate_seed,
        "scenario": settings.simulate_scenario,
        "faults": settings.simulate_faults,
        "origin": time.time(),
    }


class _VisibleHere:
    """Which devices this process's masks show: asked for every sample, rarely different."""

    def __init__(self, may_change: bool) -> None:
        self._of: tuple[list[Device], dict[str, str]] | None = None
        self._found = visibility((), {})
        self._masks = None if may_change else _masks()

    def __call__(self, devices: Sequence[Device]) -> Visibility:
        masks = _masks() if self._masks is None else self._masks
        asked = list(devices), masks
        if asked != self._of:  # mostly the same objects, so this is cheap
            self._of, self._found = asked, visibility(devices, masks)
        return self._found


def _masks() -> dict[str, str]:
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def _read(path: Path) -> str:
    """The text of the configuration file; /dev/null means none."""
    if str(path) == os.devnull:
        return ""
    try:
        return read_regular(path, LONGEST_CONFIG_BYTES, follow=True).decode()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8 text"
        raise Invalid(
            f"{str(path)[:LONGEST_SHOWN]} cannot be read: {reason}",
            hint="check the file, or unset ANDON_CONFIG",
        ) from exc


def open_store(settings: Settings, readonly: bool = False) -> Store:
    """The history the settings name; read-only, it is never created, repaired or changed."""
    from andon.core.history.tiers import DAY_SECONDS, Retention
    from andon.registry import STORES, load

    retention = Retention(
        raw_seconds=settings.history_raw_days * DAY_SECONDS,
        minute_seconds=settings.history_minute_days * DAY_SECONDS,
        hour_seconds=settings.history_hour_days * DAY_SECONDS,
        most_bytes=settings.history_max_megabytes * 1_000_000,
    )
    if settings.history_path == IN_MEMORY:
        memory: Store = load(STORES, "memory")(retention)
        return memory
    store: Store = load(STORES, "sqlite")(history_path(settings), retention, readonly)
    return store


def history_path(settings: Settings) -> Path:
    """The history file: named, or in the user's state folder."""
    if settings.history_path:
        return expanded(settings.history_path)
    return state_folder() / "history.db"


def labels_of(settings: Settings) -> dict[str, list[str]]:
    """`quiet:3` labels device 3 quiet; both sides may have several."""
    out: dict[str, list[str]] = {}
    for item in settings.share_labels:
        label, _, device = item.partition(":")
        if not label or not device:
            raise Invalid(f"share.labels: {item!r} is not LABEL:DEVICE", hint="for example quiet:3")
        out.setdefault(label, []).append(device)
    return out


def weights_of(settings: Settings) -> "Weights":
    """The weights of free memory and low utilisation when devices are chosen."""
    from andon.core.sharing.capacity import Weights

    return Weights(settings.score_memory_weight, settings.score_utilization_weight)


def separate_history(settings: Settings) -> Settings:
    """Simulated and replayed readings do not go into this node's history."""
    unreal = settings.simulate or settings.replay
    if unreal and not settings.history_path:
        return replace(settings, history_path=IN_MEMORY)
    return settings


def open_alert_store(settings: Settings) -> "AlertStore":
    """Where alerts are stored: in the history file, or in memory only."""
    from andon.registry import ALERT_STORES, load

    if settings.history_path == IN_MEMORY:
        memory: AlertStore = load(ALERT_STORES, "memory")()
        return memory
    ledger: AlertStore = load(ALERT_STORES, "sqlite")(history_path(settings))
    return ledger


def rulebook(settings: Settings) -> "Rulebook":
    """The thresholds from the settings; a threshold that is off turns its rule off."""
    from andon.core.conditions.rulebook import RULES_OF, Override, Rulebook
    from andon.core.conditions.thresholds import FIGURES, Thresholds

    given = {name: getattr(settings, f"alerts_{name}") for name in FIGURES}
    off = {RULES_OF[name] for name, figure in given.items() if figure is None}
    figures = {name: figure for name, figure in given.items() if figure is not None}
    overrides = [
        Override(one.device, one.model, one.figures, frozenset(one.disabled_rules))
        for one in settings.alerts_overrides
    ]
    thresholds = Thresholds(**figures, off=frozenset(off | set(settings.alerts_disabled_rules)))
    return Rulebook(thresholds, overrides, settings.alerts_renotify_seconds)


def open_notifiers(settings: Settings, node: str = "") -> "list[RoutedNotifier]":
    """All notifiers, each with its route. Invalid lists every mistake at once, and no secret."""
    from andon.core.notifying.messages import MessageContext
    from andon.core.notifying.routes import Route, parse_quiet
    from andon.host.clock import offset
    from andon.model.alert import Level

    found: list[RoutedNotifier] = []
    mistakes: list[str] = []
    zone = offset(settings.alerts_time_zone)
    voice = MessageContext(
        node or settings.node or node_name(),
        zone,
        settings.alerts_board_url,
        simulated=bool(settings.simulate),
    )
    for one in settings.alerts_notifiers:
        # Alertmanager has its own mute times.
        quiet = "" if one.kind == "alertmanager" else settings.alerts_quiet_hours
        route = Route(
            name=one.name,
            level=one.minimum_level or Level(settings.alerts_minimum_level),
            rules=one.rules,
            devices=one.devices,
            owners=one.owners,
            quiet=parse_quiet(quiet if one.quiet_hours is None else one.quiet_hours),
            bypass_quiet_hours=None
            if one.bypass_quiet_hours == "never"
            else Level(one.bypass_quiet_hours),
        )
        try:
            found.append((_notifier(one, voice), route))
        except AndonError as exc:
            mistakes.append(f"{exc.reason} ({exc.hint})" if exc.hint else exc.reason)
    if mistakes:
        count = len(mistakes)
        reason = mistakes[0] if count == 1 else f"{count} notifiers cannot be used"
        raise Invalid(reason, hint="see docs/notifiers.md", mistakes=tuple(mistakes))
    return found


def _notifier(settings: "NotifierSettings", context: "MessageContext") -> "Notifier":
    from andon.registry import NOTIFIERS, load

    try:
        made = load(NOTIFIERS, settings.kind)
    except AndonError as exc:
        raise type(exc)(f"notifier {settings.name}: {exc.reason}", exc.hint) from exc
    notifier: Notifier = made(settings, context)
    return notifier


def check_settings(flags: Mapping[str, object], config: str | None = None) -> Resolved:
    """Like `load_settings`, but checks the notifiers too and reports every mistake at once."""
    from andon.core.settings.alerts import addresses

    try:
        resolved = load_settings(flags, config, strict=True)
    except Invalid as exc:
        path = config_path(config)
        named = addresses(_read(path)) if path is not None and is_regular(path) else ()
        try:
            open_notifiers(Settings(alerts_notifiers=named))
        except Invalid as more:
            mistakes = (*exc.mistakes, *more.mistakes)
            reason = f"there are {len(mistakes)} mistakes in the settings"
            raise Invalid(reason, hint=exc.hint, mistakes=mistakes) from exc
        raise
    open_notifiers(resolved.settings)
    return resolved


def open_lease_tracker(settings: Settings, sampler: Sampler) -> "LeaseTracker | None":
    """Follows the lease book for this sampler; None for a recording, which has no leases."""
    from andon.engine.sharing.lease_tracker import POLL_SECONDS, LeaseTracker

    if settings.replay or sys.platform == "win32":
        return None
    pace = max(settings.interval_seconds, POLL_SECONDS)
    ledger = LeaseTracker(sampler.subscribe(pace, size=2))
    sampler.mark_by(ledger.marked)
    return ledger


def open_watcher(
    settings: Settings,
    sampler: Sampler,
    store: "Callable[[], StoreStats]",
    keep: bool = True,
    leases: "LeaseTracker | None" = None,
) -> "Watcher":
    """Alerts from this sampler. A recording notifies no one."""
    from andon.engine.alerting.watcher import Watcher
    from andon.engine.sampling.self_monitor import SelfMonitor
    from andon.host.clock import offset

    kept = separate_history(settings) if keep else replace(settings, history_path=IN_MEMORY)
    notifiers = [] if settings.replay else open_notifiers(settings, sampler.node.name)
    return Watcher(
        sampler.subscribe(settings.interval_seconds),
        rulebook(settings),
        lambda: open_alert_store(kept),
        notifiers,
        offset(settings.alerts_time_zone),
        sampler.node.boot,
        SelfMonitor(sampler.costs, store),
        book=None if leases is None else leases.page,
    )
