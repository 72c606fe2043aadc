"""Records the values of a real device, idle and under load, as a fixture for other suites."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import andon
from andon.model import wire
from andon.model.device import Snapshot
from tests.device import smi
from tests.device.scenes import Ground, SkippedError, busy

TEXTS = {"nvidia-smi": (), "nvidia-smi -q": ("-q",), "nvidia-smi -q -x": ("-q", "-x")}
DEADLINE_SECONDS = 60.0
MASKED = ["uuid", "serial numbers", "PDI and GUIDs", "node name", "boot id", "paths of python"]

_UNIQUE = (  # a line of `-q`, and an element of `-q -x`; too short a value identifies nothing
    re.compile(r"(?:Serial Number|GPU PDI|GUID|UUID)\s*: (\w[\w-]{5,})"),
    re.compile(r"<(?:\w*serial\w*|\w*pdi|\w*guid|\w*uuid)>(\w[\w-]{5,})</", re.IGNORECASE),
)


def record(ground: Ground, path: Path) -> None:
    """Both scenes; if there is no load, the fixture says so."""
    raw: dict[str, Any] = {}
    snapshots: dict[str, Any] = {}
    ground.idle()
    raw["idle"], idle = _raw(), _watched()
    snapshots["idle"] = _named(idle)
    try:
        with busy(ground):
            raw["loaded"], snapshots["loaded"] = _raw(), _named(_watched())
    except SkippedError as skipped:
        print(f"skipped  the load – {skipped}", file=sys.stderr)
        raw["loaded"] = snapshots["loaded"] = {"absent": str(skipped)}
    found = {
        "made_by": " ".join(["python", "-m", "tests.device", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": idle.devices[0].device.name,
        "driver": idle.versions.get("driver"),
        "masked": MASKED,
        "raw": raw,
        "snapshot": snapshots,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(masked(found, replacements(idle, raw)), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    print(f"{path}: {len(text)} characters")


def _watched() -> Snapshot:
    """The third sample of a session: activity needs two."""
    with andon.watch(1.0) as looks:
        for _ in range(3):
            snapshot = looks.get(DEADLINE_SECONDS)
    assert snapshot is not None
    return snapshot


def _named(snapshot: Snapshot) -> wire.Json:
    return wire.snapshot_to_json(snapshot) | {"node": "recorded"}


def _raw() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, arguments in TEXTS.items():
        try:
            found[name] = smi.ask(*arguments)
        except SkippedError as skipped:
            print(f"skipped  {name} – {skipped}", file=sys.stderr)
            found[name] = {"absent": str(skipped)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.device.nvml_calls"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    found["nvml"] = json.loads(done.stdout)
    return found


def replacements(snapshot: Snapshot, raw: Mapping[str, Any]) -> dict[str, str]:
    """What identifies this machine, and its replacement, the same everywhere."""
    found = {status.device.uuid: _made_up(status.device.uuid) for status in snapshot.devices}
    if snapshot.boot:
        found[snapshot.boot] = _made_up(snapshot.boot)
    for text in _texts(raw):
        for pattern in _UNIQUE:
            found |= {word: _made_up(word) for word in pattern.findall(text)}
    serial = raw["idle"]["nvml"].get("nvmlDeviceGetSerial")
    if isinstance(serial, str):
        found[serial] = _made_up(serial)
    for path in {sys.executable, os.path.realpath(sys.executable)}:
        found[path] = "/usr/bin/python3"
    return found


def masked(value: Any, names: Mapping[str, str]) -> Any:
    """The same value with every string cleaned."""
    if isinstance(value, str):
        for name in sorted(names, key=len, reverse=True):
            value = value.replace(name, names[name])
        return value
    if isinstance(value, dict):
        return {masked(key, names): masked(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item, names) for item in value]
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)


def _made_up(text: str) -> str:
    """Another string of the same form: digits stay digits, hexadecimal stays hexadecimal."""
    digits = hashlib.sha256(text.encode()).digest() * (len(text) // 32 + 1)
    head = next((part for part in ("GPU", "MIG", "0x") if text.startswith(part)), "")
    out = []
    for number, character in enumerate(text):
        if number < len(head) or character not in "0123456789abcdefABCDEF":
            out.append(character)
        elif character.isdigit() and text.replace("-", "").isdigit():
            out.append(str(digits[number] % 10))
        else:
            out.append("0123456789abcdef"[digits[number] % 16])
    return "".join(out)
