"""The settings in force, from flags, variables and the configuration file."""

import os
from collections.abc import Mapping
from pathlib import Path

from andon.core.settings.resolution import Resolved, Settings, resolve
from andon.errors import Invalid
from andon.host.folders import expanded, home_folder
from andon.host.private_files import is_regular, read_regular

LONGEST_CONFIG_BYTES = 1 << 20
LONGEST_SHOWN = 200  # characters of a path in a message


def config_path(explicit: str | None = None) -> Path | None:
    """The configuration file in use: named, the user's, the system's, or none."""
    named = explicit or os.environ.get("ANDON_CONFIG")
    if named:
        return expanded(named)
    folder = os.environ.get("XDG_CONFIG_HOME")
    home = expanded(folder) if folder else home_folder() / ".config"
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


def check_settings(flags: Mapping[str, object], config: str | None = None) -> Resolved:
    """Like `load_settings`, with notifiers and store; reports every mistake at once."""
    from andon.app.alerts import open_notifiers
    from andon.app.history import store_kind
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
    store_kind(resolved.settings)
    return resolved


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
