"""Stores probes in one file for each device model, number of devices and command."""

import hashlib
from pathlib import Path

from andon.errors import Invalid, Unavailable
from andon.host.files import make_private, read_regular, replace_file
from andon.host.state.user_folder import open_state_folder, state_folder
from andon.model.codec import document, read_document
from andon.model.probe import ProbeResult
from andon.model.wire import ANSWER, dumps, loads

FOLDER = "probes"


def probes_folder() -> Path:
    """Returns the path of this user's folder of probes, without creating it."""
    return state_folder() / FOLDER


def store_probe(probe: ProbeResult) -> Path:
    """Stores a probe in place of an earlier one of the same command on the same model."""
    folder = open_state_folder() / FOLDER
    path = folder / f"{_key(probe)}.json"
    text = dumps(document(probe)) + "\n"
    try:
        make_private(folder)
        replace_file(path, text.encode(errors="replace"))  # a command may be no text
    except OSError as exc:
        raise Unavailable(f"the probe cannot be stored in {folder}: {exc.strerror}") from exc
    return path


def stored_probes() -> list[ProbeResult]:
    """Returns all probes, newest first; a file that cannot be read is left out."""
    try:
        paths = sorted(probes_folder().glob("*.json"))
    except OSError:
        return []
    found = (_read(path) for path in paths)
    return sorted((one for one in found if one is not None), key=lambda one: -one.at)


def _key(probe: ProbeResult) -> str:
    text = "\0".join((probe.name, probe.model, str(probe.devices), probe.command))
    key = f"{text}\0{probe.simulated}".encode(errors="backslashreplace")
    return hashlib.sha256(key).hexdigest()[:24]


def _read(path: Path) -> ProbeResult | None:
    try:
        return read_document(ProbeResult, loads(read_regular(path), ANSWER))
    except (OSError, Invalid):
        return None
