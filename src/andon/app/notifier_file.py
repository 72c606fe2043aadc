"""Adds a notifier to the configuration file: checked before, written whole, private."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.app.alerts import open_notifiers
from andon.app.settings import read_config
from andon.errors import Conflict, Denied, Invalid
from andon.host.files import (
    FOLDER,
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    SYSTEM_FOLDER,
    lock,
    make_private,
    replace_file,
)
from andon.host.state.user_folder import SYSTEM_FILE, config_path, users_file
from andon.settings.alerts import NotifierSettings, read_notifiers
from andon.settings.notifier_kinds import free_name, notifier_lines, with_lines
from andon.settings.resolution import Settings, resolve


class AddedNotifier(Struct, frozen=True):
    """The file and the added lines; `lines` is empty if the notifier was there already."""

    path: Path
    settings: NotifierSettings
    lines: str


def add_notifier(kind: str, values: Mapping[str, Any], name: str | None = None) -> AddedNotifier:
    """Appends a notifier to the configuration file in use; an existing one stays as it is."""
    path = (config_path() or _new_file()).resolve()
    with _locked(path.parent):
        text = read_config(path) if path.exists() else ""
        before = resolve((str(path), text), {}, {}).settings.alerts_notifiers
        taken = [one.name for one in before]
        if name in taken:
            same = _made(name or kind, kind, values)
            if same not in before:
                hint = "choose another name with --name, or edit the file"
                raise Conflict(f"{path} has a notifier named {name} already", hint=hint)
        new = _made(name or free_name(kind, taken), kind, values)
        known = next((one for one in before if replace(one, name=new.name) == new), None)
        if known is not None and name in (None, known.name):
            return AddedNotifier(path, known, "")
        lines = notifier_lines(new.name, kind, values)
        after = with_lines(text, lines)
        if _notifiers(path, after) != (*before, new):
            raise Invalid(
                f"{path} keeps its notifiers in another form, so nothing was added",
                hint="write them as [[alerts.notifier]] tables",
            )
        open_notifiers(Settings(alerts_notifiers=(new,)))  # Apprise knows more about an address
        _write(path, after)
    return AddedNotifier(path, new, lines)


def _new_file() -> Path:
    """The file to create; root's is the machine's, because its HOME may be another user's."""
    return SYSTEM_FILE if os.geteuid() == 0 else users_file()


def _made(name: str, kind: str, values: Mapping[str, Any]) -> NotifierSettings:
    mistakes: list[str] = []
    table = {"name": name, "kind": kind, **values}
    found = read_notifiers([table], "notifier", mistakes)
    if not found:
        reasons = tuple(mistake.partition(": ")[2] or mistake for mistake in mistakes)
        reason = f"this {kind} notifier cannot be used: {reasons[0]}"
        raise Invalid(reason, hint="andon alerts notify add --help", mistakes=reasons[1:])
    return found[0]


def _notifiers(path: Path, text: str) -> tuple[NotifierSettings, ...] | None:
    try:
        return resolve((str(path), text), {}, {}).settings.alerts_notifiers
    except Invalid:
        return None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer at a time: the file is read, extended and replaced."""
    try:
        system = folder.is_relative_to(SYSTEM_FILE.parents[1])  # others look for the policy in it
        make_private(folder, SYSTEM_FOLDER if system else PRIVATE_FOLDER)
        descriptor = os.open(folder, os.O_RDONLY | FOLDER)
    except OSError as exc:
        raise _denied(folder, exc) from exc
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, text: str) -> None:
    """Writes the file as private, because an address is a secret; its owner does not change."""
    try:
        owner = path.stat() if path.exists() else None
        replace_file(path, text.encode(), PRIVATE_FILE)
        if owner is not None and os.geteuid() == 0 != owner.st_uid:
            os.chown(path, owner.st_uid, owner.st_gid)
    except OSError as exc:
        raise _denied(path, exc) from exc


def _denied(path: Path, exc: OSError) -> Denied:
    hint = "name a file of yours with --config, or ask who runs the server"
    return Denied(f"{path} cannot be written: {exc.strerror}", hint=hint)
