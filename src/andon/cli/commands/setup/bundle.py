"""`andon doctor --bundle FILE`: what a bug report needs, in one archive without secrets."""

import gzip
import io
import os
import platform
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from andon.app.uplink import TOKEN_FILE, TOKEN_VARIABLE
from andon.cli.commands.setup.config import settings_to_json
from andon.cli.outfile import refusal
from andon.cli.show.text import styled
from andon.cli.sources import resolved_of
from andon.cli.terminal import Choices, Terminal
from andon.doctor.rules.bundle import redacted_log, safe_parts, without_commands
from andon.errors import AndonError, Conflict
from andon.host.files import read_tail, replace_file
from andon.host.state.node_folder import node_folder
from andon.host.state.user_folder import TOKEN, state_folder
from andon.jobs.folder import LOG, jobs_path
from andon.model import wire
from andon.model.device import Snapshot
from andon.model.wire import snapshot_to_json
from andon.node.local_server import local_servers
from andon.settings.table import Settings
from andon.units import human_bytes
from andon.version import __version__

ABOUT = {
    "dispatcher.log": "the end of your dispatcher's log, secrets hidden",
    "doctor.json": "what andon doctor found",
    "health.json": "the state of the server on this machine",
    "settings.json": "the settings, without addresses and passwords",
    "snapshot.json": "the readings, users and programs, without command lines",
    "versions.json": "versions of andon, Python and packages",
}
FOLDER = "andon-report"
LOG_BYTES = 64 * 1024
HEALTH = "/api/health"


def write_bundle(path: Path, choices: Choices, found: wire.Json, snapshot: Snapshot | None) -> None:
    """Writes the archive, which only this user may read, and prints what is in it."""
    if os.path.lexists(path):
        raise Conflict(f"{path} already exists", hint="name another file")
    parts = {"doctor.json": _text(found), "versions.json": _text(_versions())}
    if snapshot is not None:
        parts["snapshot.json"] = _text(snapshot_to_json(without_commands(snapshot)))
    settings = Settings()
    with suppress(AndonError):  # mistakes in them are in doctor.json
        resolved = resolved_of(choices)
        settings = resolved.settings
        parts["settings.json"] = _text(settings_to_json(resolved))
    with suppress(AndonError):
        for server in local_servers((HEALTH,)):
            parts["health.json"] = _text(server.get(HEALTH))
            break
    with suppress(AndonError):  # another user's state folder
        if log := read_tail(jobs_path() / LOG, LOG_BYTES):
            parts["dispatcher.log"] = redacted_log(log)
    contents = safe_parts(parts, secrets_of(settings))
    try:
        replace_file(path, archive(contents))
    except OSError as exc:
        raise refusal(path, exc) from exc
    terminal = Terminal.of(choices)
    terminal.print(styled(f"{path}: read it before you send it", "bold"))
    for name, content in contents.items():
        terminal.print(styled(f"  {name:<15} {human_bytes(len(content)):>8}  {ABOUT[name]}"))


def archive(parts: Mapping[str, bytes]) -> bytes:
    """Returns a compressed tar that depends on the parts alone."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in parts.items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size, member.mode = len(content), 0o600
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def secrets_of(settings: Settings) -> Iterator[str]:
    """Yields what must not be in the archive wherever it stands: tokens, and the settings that
    `andon config show` hides."""
    for path in (state_folder() / TOKEN, node_folder() / TOKEN_FILE):
        yield read_tail(path, LOG_BYTES).strip()
    yield from (os.environ.get(name, "") for name in ("ANDON_TOKEN", TOKEN_VARIABLE))
    yield settings.history_store
    for table in (*settings.alerts_notifiers, *settings.clusters, *settings.exports):
        hidden = asdict(table)
        yield from _strings([hidden.get(key) for key in ("url", "options", "headers")])


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _strings(one)


def _versions() -> wire.Json:
    packages = {
        one.metadata["Name"]: one.version
        for one in metadata.distributions()
        if one.metadata["Name"]
    }
    return {
        "andon": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": dict(sorted(packages.items())),
    }


def _text(value: object) -> str:
    return wire.dumps(value, indented=True) + "\n"
