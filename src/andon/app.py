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
from andon.errors import Invalid
from andon.host.folders import expanded
from andon.host.kernel_log import KernelLog
from andon.host.presence import has_nvidia_smi, unreadable, vendors
from andon.host.private_files import is_regular, read_regular
from andon.host.server.state_folder import state_folder as state_folder
from andon.host.system import System, boot_id, node_name
from andon.model.device import Device
from andon.ports import Store
from andon.registry import BACKENDS

if TYPE_CHECKING:  # alerts and leases are not for every start
    from andon.core.conditions.rulebook import Rulebook
    from andon.core.sampling.self_checks import StoreStats
    from andon.core.sharing.capacity import Weights
    from andon.engine.alerting.watcher import Told, Watcher
    from andon.engine.sharing.lease_tracker import LeaseTracker
    from andon.ports import AlertStore

IN_MEMORY = ":memory:"
LONGEST_CONFIG_BYTES = 1 << 20
LONGEST_SHOWN = 200  # letters of a path in a message
SMI_DEADLINES = 5.0  # the command takes up to a second for eight devices


def config_path(explicit: str | None = None) -> Path | None:
    """The configuration file in force: named, the person's, the system's, or none."""
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


def open_sampler(settings: Settings) -> Sampler:
    """A sampler over what the settings ask for: this node, a simulation or a recording."""
    if settings.replay:
        return _replay(settings)
    root = Path(settings.root)
    return Sampler(
        vendors=_vendors(settings, root),
        host=System(root),
        node=NodeIdentity(settings.node or node_name(), boot_id(root)),
        visibility=_VisibleHere(),
        deadline_seconds=settings.deadline_seconds,
        standing_faults=() if settings.simulate else unreadable(),
        kernel_log=None if settings.simulate else KernelLog(root),
    )


def _vendors(settings: Settings, root: Path) -> dict[str, tuple[BackendChoice, ...]]:
    if settings.simulate:
        return {"sim": (BackendChoice("sim", _simulation(settings)),)}
    names = vendors(root) if "auto" in settings.backends else settings.backends
    unknown = [name for name in names if name not in BACKENDS]
    if unknown:
        known = ", ".join(sorted(BACKENDS))
        raise Invalid(f"unknown backends: {', '.join(unknown)}", hint=f"one of: auto, {known}")
    return {name: _choices(name, settings) for name in names}


def _choices(name: str, settings: Settings) -> tuple[BackendChoice, ...]:
    """NVIDIA's command stands in where its library cannot be loaded: slower, and often there."""
    options = {} if name == "sim" else {"root": settings.root}
    first = BackendChoice(name, options, SMI_DEADLINES if name == "nvidia_smi" else 1.0)
    if name == "nvidia" and has_nvidia_smi():
        return first, BackendChoice("nvidia_smi", options, SMI_DEADLINES)
    return (first,)


def _replay(settings: Settings) -> Sampler:
    """The recorded node in place of this one: its values, its name, no mask of ours."""
    from andon.backends.replay import RecordedHost

    played: dict[str, object] = {
        "path": str(expanded(settings.replay).absolute()),
        "speed": settings.replay_speed,
        "loop": settings.replay_loop,
        "origin": time.time(),
    }
    host = RecordedHost(**played)  # type: ignore[arg-type]
    # Recorded pids must not be looked up among this system's processes: no such root exists.
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
    """Checked here: a mistake in it is this caller's, and not a reader's that fails later."""
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
    """Which devices this process's masks show: asked on every tick, and another about never."""

    def __init__(self) -> None:
        self._of: tuple[list[Device], dict[str, str]] | None = None
        self._found = visibility((), {})

    def __call__(self, devices: Sequence[Device]) -> Visibility:
        masks = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        asked = list(devices), masks
        if asked != self._of:  # the devices are mostly the same objects, and compared as such
            self._of, self._found = asked, visibility(devices, masks)
        return self._found


def _read(path: Path) -> str:
    """The text of a file of settings; the null device stands for none."""
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
    """The history that the settings name; reading only, it is never made, mended or changed."""
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
    """The file of the history: named, or in the person's state folder."""
    if settings.history_path:
        return expanded(settings.history_path)
    return state_folder() / "history.db"


def labels_of(settings: Settings) -> dict[str, list[str]]:
    """`quiet:3` names device 3 quiet; a device may have several labels, and a label devices."""
    out: dict[str, list[str]] = {}
    for item in settings.share_labels:
        label, _, device = item.partition(":")
        if not label or not device:
            raise Invalid(f"share.labels: {item!r} is not LABEL:DEVICE", hint="as in quiet:3")
        out.setdefault(label, []).append(device)
    return out


def weights_of(settings: Settings) -> "Weights":
    """How much free memory and idleness count when a device is chosen."""
    from andon.core.sharing.capacity import Weights

    return Weights(settings.score_memory_weight, settings.score_utilization_weight)


def kept_apart(settings: Settings) -> Settings:
    """What never happened on this node does not belong in its history."""
    unreal = settings.simulate or settings.replay
    if unreal and not settings.history_path:
        return replace(settings, history_path=IN_MEMORY)
    return settings


def open_ledger(settings: Settings) -> "AlertStore":
    """Where alerts are remembered: in the history's file, or in memory alone."""
    from andon.registry import LEDGERS, load

    if settings.history_path == IN_MEMORY:
        memory: AlertStore = load(LEDGERS, "memory")()
        return memory
    ledger: AlertStore = load(LEDGERS, "sqlite")(history_path(settings))
    return ledger


def rulebook(settings: Settings) -> "Rulebook":
    """The figures of the settings; a threshold that is off turns its rule off."""
    from andon.core.conditions.rulebook import FIGURES, RULES_OF, Override, Rulebook, Thresholds

    given = {name: getattr(settings, f"alerts_{name}") for name in FIGURES}
    off = {RULES_OF[name] for name, figure in given.items() if figure is None}
    figures = {name: figure for name, figure in given.items() if figure is not None}
    overrides = [
        Override(one.device, one.model, one.figures, frozenset(one.disabled_rules))
        for one in settings.alerts_overrides
    ]
    thresholds = Thresholds(**figures, off=frozenset(off | set(settings.alerts_disabled_rules)))
    return Rulebook(thresholds, overrides, settings.alerts_renotify_seconds)


def open_notifiers(settings: Settings, node: str = "") -> "list[Told]":
    """Everyone who is told. Invalid names every mistake at once, and no secret."""
    from andon.core.notifying.messages import Voice
    from andon.core.notifying.routes import Route, parse_quiet
    from andon.errors import AndonError
    from andon.host.clock import offset
    from andon.model.alert import Level
    from andon.registry import NOTIFIERS, load

    found: list[Told] = []
    mistakes: list[str] = []
    zone = offset(settings.alerts_time_zone)
    voice = Voice(
        node or settings.node or node_name(),
        zone,
        settings.alerts_board_url,
        simulated=bool(settings.simulate),
    )
    for one in settings.alerts_notifiers:
        # Alertmanager has times of its own in which it is mute.
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
            found.append((load(NOTIFIERS, one.kind)(one, voice), route))
        except AndonError as exc:
            mistakes.append(f"{exc.reason} ({exc.hint})" if exc.hint else exc.reason)
    if mistakes:
        count = len(mistakes)
        reason = mistakes[0] if count == 1 else f"{count} notifiers cannot be used"
        raise Invalid(reason, hint="see docs/notifiers.md", mistakes=tuple(mistakes))
    return found


def check_settings(flags: Mapping[str, object], config: str | None = None) -> Resolved:
    """As `load_settings`, and the notifiers are asked as well: every mistake at once."""
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


def open_lease_ledger(settings: Settings, sampler: Sampler) -> "LeaseTracker | None":
    """What the lease book says, beside this sampler; a recording has no leases of its own."""
    from andon.engine.sharing.lease_tracker import TURN_SECONDS, LeaseTracker

    if settings.replay or sys.platform == "win32":
        return None
    pace = max(settings.interval_seconds, TURN_SECONDS)
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
    """Alerts over this sampler. Of a recording that is played nobody is told."""
    from andon.engine.alerting.watcher import Watcher
    from andon.engine.sampling.self_monitor import SelfMonitor
    from andon.host.clock import offset

    kept = kept_apart(settings) if keep else replace(settings, history_path=IN_MEMORY)
    told = [] if settings.replay else open_notifiers(settings, sampler.node.name)
    return Watcher(
        sampler.subscribe(settings.interval_seconds),
        rulebook(settings),
        lambda: open_ledger(kept),
        told,
        offset(settings.alerts_time_zone),
        sampler.node.boot,
        SelfMonitor(sampler.costs, store),
        book=None if leases is None else leases.page,
    )
