"""The settings in force, from flags, variables and the configuration file."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from andon.errors import Invalid
from andon.host.files import expanded, home_folder, is_regular, read_regular
from andon.settings.resolution import Resolved, Settings, resolve

LONGEST_CONFIG_BYTES = 1 << 20
LONGEST_SHOWN = 200  # characters of a path in a message


def config_path(explicit: str | None = None) -> Path | None:
    """The configuration file in use: named, the user's, the system's, or none."""
    named = explicit or os.environ.get("ANDON_CONFIG")
    if named:
        return expanded(named)
    for path in (users_file(), Path("/etc/andon/andon.toml")):
        if is_regular(path) and _foreign_owner(path) is None:
            return path
    return None


def users_file() -> Path:
    """The user's own configuration file, whether it exists or not."""
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (expanded(folder) if folder else home_folder() / ".config") / "andon" / "andon.toml"


def _foreign_owner(path: Path) -> int | None:
    """Returns the user whose settings root would load, with notifier commands: root may have
    that user's HOME (`sudo -E`)."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return None
    return owner if hasattr(os, "geteuid") and os.geteuid() == 0 != owner else None


def load_settings(
    flags: Mapping[str, object], config: str | None = None, strict: bool = False
) -> Resolved:
    """Loads the settings: flags, then ANDON_* variables, then the file, then the defaults."""
    path = config_path(config)
    file = None if path is None else (str(path), read_config(path))
    resolved = resolve(file, os.environ, flags, strict)
    if config or os.environ.get("ANDON_CONFIG") or (ignored := _ignored()) is None:
        return resolved
    return replace(resolved, warnings=(*resolved.warnings, ignored))


def _ignored() -> str | None:
    """Returns the warning about a file that root does not read because another user wrote it."""
    path = users_file()
    owner = _foreign_owner(path) if is_regular(path) else None
    if owner is None:
        return None
    from andon.host.users import user_name  # rarely needed

    shown = str(path)[:LONGEST_SHOWN]
    return f"{shown} is not read: it belongs to {user_name(owner)}; to use it: --config {shown}"


def check_settings(flags: Mapping[str, object], config: str | None = None) -> Resolved:
    """Like `load_settings`, with notifiers and store; reports every mistake at once."""
    from andon.app.alerts import open_notifiers
    from andon.app.history import store_kind, store_url
    from andon.settings.alerts import addresses

    try:
        resolved = load_settings(flags, config, strict=True)
    except Invalid as exc:
        path = config_path(config)
        named = addresses(read_config(path)) if path is not None and is_regular(path) else ()
        try:
            open_notifiers(Settings(alerts_notifiers=named))
        except Invalid as more:
            mistakes = (*exc.mistakes, *more.mistakes)
            reason = f"there are {len(mistakes)} mistakes in the settings"
            raise Invalid(reason, hint=exc.hint, mistakes=mistakes) from exc
        raise
    open_notifiers(resolved.settings)
    store_kind(store_url(resolved.settings))
    return resolved


def read_config(path: Path) -> str:
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
