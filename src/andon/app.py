"""The composition root: the only place that reads the configuration and picks adapters."""

import os
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from andon.core.masks import VARIABLES, Visibility, visibility
from andon.core.settings import Resolved, Settings, resolve
from andon.engine.sampler import Node, Sampler
from andon.errors import Invalid
from andon.host.system import System, boot_id, node_name
from andon.model.device import Device
from andon.registry import BACKENDS

AUTOMATIC = ("nvidia",)
"""The backends that are asked when the settings do not name any."""


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


def load_settings(flags: Mapping[str, object], config: str | None = None) -> Resolved:
    """Flags, then ANDON_* variables, then the file, then the defaults."""
    path = config_path(config)
    return resolve(None if path is None else (str(path), _read(path)), os.environ, flags)


def open_sampler(settings: Settings) -> Sampler:
    """A sampler over the backends that the settings ask for."""
    root = Path(settings.root)
    return Sampler(
        readers=_readers(settings),
        host=System(root),
        node=Node(settings.node or node_name(), boot_id(root)),
        visibility=_visible_to_this_process,
        deadline_seconds=settings.deadline_seconds,
    )


def _readers(settings: Settings) -> dict[str, dict[str, object]]:
    if settings.simulate:
        return {"sim": _simulation(settings)}
    names = AUTOMATIC if "auto" in settings.backends else settings.backends
    unknown = [name for name in names if name not in BACKENDS]
    if unknown:
        known = ", ".join(sorted(BACKENDS))
        raise Invalid(f"unknown backends: {', '.join(unknown)}", hint=f"one of: auto, {known}")
    return {name: {} if name == "sim" else {"root": settings.root} for name in names}


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
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise Invalid(
            f"{path} cannot be read: {exc}", hint="check the file, or unset ANDON_CONFIG"
        ) from exc
