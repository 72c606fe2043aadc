"""The composition root: the only place that reads the configuration and picks adapters."""

import os
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from andon.core.masks import VARIABLES, Visibility, visibility
from andon.core.settings import Resolved, Settings, resolve
from andon.engine.readers import Choice
from andon.engine.sampler import Node, Sampler
from andon.errors import Invalid
from andon.host.presence import has_nvidia_smi, unreadable, vendors
from andon.host.system import System, boot_id, node_name
from andon.model.device import Device
from andon.ports import Store
from andon.registry import BACKENDS

if TYPE_CHECKING:
    from andon.core.rooms import Weights

LONGEST_CONFIG_BYTES = 1 << 20
SMI_DEADLINES = 5.0  # the command takes up to a second for eight devices


def config_path(explicit: str | None = None) -> Path | None:
    """The configuration file in force: named, the person's, the system's, or none."""
    named = explicit or os.environ.get("ANDON_CONFIG")
    if named:
        return Path(named).expanduser()
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser())
    for path in (home / "andon" / "andon.toml", Path("/etc/andon/andon.toml")):
        if path.is_file():
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
        node=Node(settings.node or node_name(), boot_id(root)),
        visibility=_visible_to_this_process,
        deadline_seconds=settings.deadline_seconds,
        standing_faults=() if settings.simulate else unreadable(),
    )


def _vendors(settings: Settings, root: Path) -> dict[str, tuple[Choice, ...]]:
    if settings.simulate:
        return {"sim": (Choice("sim", _simulation(settings)),)}
    names = vendors(root) if "auto" in settings.backends else settings.backends
    unknown = [name for name in names if name not in BACKENDS]
    if unknown:
        known = ", ".join(sorted(BACKENDS))
        raise Invalid(f"unknown backends: {', '.join(unknown)}", hint=f"one of: auto, {known}")
    return {name: _choices(name, settings) for name in names}


def _choices(name: str, settings: Settings) -> tuple[Choice, ...]:
    """NVIDIA's command stands in where its library cannot be loaded: slower, and often there."""
    options = {} if name == "sim" else {"root": settings.root}
    first = Choice(name, options, SMI_DEADLINES if name == "nvidia_smi" else 1.0)
    if name == "nvidia" and has_nvidia_smi():
        return first, Choice("nvidia_smi", options, SMI_DEADLINES)
    return (first,)


def _replay(settings: Settings) -> Sampler:
    """The recorded node in place of this one: its values, its name, no mask of ours."""
    from andon.backends.replay import RecordedHost

    played: dict[str, object] = {
        "path": str(Path(settings.replay).expanduser().absolute()),
        "speed": settings.replay_speed,
        "loop": settings.replay_loop,
        "origin": time.time(),
    }
    host = RecordedHost(**played)  # type: ignore[arg-type]
    # Recorded pids must not be looked up among this system's processes: no such root exists.
    nowhere = {**played, "root": "/nonexistent"}
    return Sampler(
        vendors={"replay": (Choice("replay", nowhere),)},
        host=host,
        node=Node(host.first.node, host.first.boot),
        visibility=_all_visible,
        deadline_seconds=settings.deadline_seconds,
    )


def _all_visible(devices: Sequence[Device]) -> Visibility:
    return visibility(devices, {})


def _simulation(settings: Settings) -> dict[str, object]:
    """Checked here: a mistake in it is this caller's, and not a reader's that fails later."""
    from andon.core.scenarios import plan

    plan(settings.simulate, settings.simulate_scenario, (), settings.simulate_faults)
    return {
        "count": settings.simulate,
        "seed": settings.simulate_seed,
        "scenario": settings.simulate_scenario,
        "faults": settings.simulate_faults,
        "origin": time.time(),
    }


def _visible_to_this_process(devices: Sequence[Device]) -> Visibility:
    masks = tuple((name, os.environ[name]) for name in VARIABLES if name in os.environ)
    return _visible(tuple(devices), masks)


@lru_cache(maxsize=8)
def _visible(devices: tuple[Device, ...], masks: tuple[tuple[str, str], ...]) -> Visibility:
    """Asked on every tick, and the answer changes about never."""
    return visibility(devices, dict(masks))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_CONFIG_BYTES).decode()
    except (OSError, UnicodeDecodeError) as exc:
        raise Invalid(
            f"{path} cannot be read: {exc}", hint="check the file, or unset ANDON_CONFIG"
        ) from exc


def open_store(settings: Settings, readonly: bool = False) -> Store:
    """The history that the settings name; reading only, it is never made, mended or changed."""
    from andon.core.series_tiers import DAY_SECONDS, Retention
    from andon.registry import STORES, load

    retention = Retention(
        raw_seconds=settings.history_raw_days * DAY_SECONDS,
        minute_seconds=settings.history_minute_days * DAY_SECONDS,
        hour_seconds=settings.history_hour_days * DAY_SECONDS,
        most_bytes=settings.history_megabytes * 1_000_000,
    )
    if settings.history_path == ":memory:":
        memory: Store = load(STORES, "memory")(retention)
        return memory
    store: Store = load(STORES, "sqlite")(history_path(settings), retention, readonly)
    return store


def history_path(settings: Settings) -> Path:
    """The file of the history: named, or in the person's state folder."""
    if settings.history_path:
        return Path(settings.history_path).expanduser()
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
    from andon.core.rooms import Weights

    return Weights(settings.score_memory_weight, settings.score_utilization_weight)


def state_folder() -> Path:
    """Where what andon remembers for this person is kept."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    return home / "andon"
