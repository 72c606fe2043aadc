"""The settings in force, from flags, variables and the configuration file."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from andon.errors import Invalid
from andon.host.files import is_regular, read_regular
from andon.host.state.user_folder import (
    LONGEST_CONFIG_BYTES,
    config_path,
    foreign_owner,
    users_file,
)
from andon.host.users import user_name
from andon.settings.resolution import Resolved, Settings, resolve
from andon.units import sh

LONGEST_SHOWN = 200  # characters of a path in a message


def load_settings(flags: Mapping[str, object], strict: bool = False) -> Resolved:
    """Loads the settings: flags, then ANDON_* variables, then the file, then the defaults."""
    path = config_path()
    file = None if path is None else (str(path), read_config(path))
    resolved = resolve(file, os.environ, flags, strict)
    if os.environ.get("ANDON_CONFIG") or (ignored := _ignored()) is None:
        return resolved
    return replace(resolved, warnings=(*resolved.warnings, ignored))


def _ignored() -> str | None:
    """Returns the warning about a file that root does not read because another user wrote it."""
    path = users_file()
    owner = foreign_owner(path) if is_regular(path) else None
    if owner is None:
        return None

    shown = str(path)[:LONGEST_SHOWN]
    return f"{shown} is not read: it belongs to {user_name(owner)}; to use it: --config {sh(path)}"


def check_settings(flags: Mapping[str, object]) -> Resolved:
    """Like `load_settings`, with notifiers, store and clusters; reports every mistake at once."""
    from andon.app.alerts import open_notifiers
    from andon.app.desks import check_clusters
    from andon.app.history import store_kind, store_url
    from andon.app.messages.digest import recipients
    from andon.settings.alerts import addresses

    try:
        resolved = load_settings(flags, strict=True)
    except Invalid as exc:
        path = config_path()
        named = addresses(read_config(path)) if path is not None and is_regular(path) else ()
        try:
            open_notifiers(Settings(alerts_notifiers=named))
        except Invalid as more:
            mistakes = (*exc.mistakes, *more.mistakes)
            reason = f"there are {len(mistakes)} mistakes in the settings"
            raise Invalid(reason, hint=exc.hint, mistakes=mistakes) from exc
        raise
    open_notifiers(resolved.settings)
    recipients(resolved.settings)
    store_kind(store_url(resolved.settings))
    check_clusters(resolved.settings)
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
            hint="check the file, and --config or ANDON_CONFIG",
        ) from exc
