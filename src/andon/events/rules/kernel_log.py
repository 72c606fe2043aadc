"""Parses driver messages in the kernel log: NVIDIA's Xids, AMD's resets.

Any user can make the kernel quote their text, e.g. `tmpfs: Unknown parameter '<text>'`. So a line
counts only if a driver prefix starts it, and if the log names the device it came from, only if
that is the device the line is about.
"""

import re
from collections.abc import Mapping
from typing import Final

from andon.model.event import Event, EventKind, Party

SOURCE: Final = "kernel log"
LONGEST_DETAIL: Final = 200
FALLEN: Final = 79

# Priority, sequence number, time, flag: "c" and "+" mark fragments, which continue another line.
_HEAD = re.compile(r"(?P<priority>[0-9]{1,5}),[0-9]{1,20},[0-9]{1,20},-(?:,[^;]{0,80})?;")
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
    r"(?P<instance>[^)]{0,40})\): (?P<code>[0-9]{1,5})(?:,\s*(?P<rest>.*))?$"
)
_FALLEN = re.compile(
    r"NVRM: GPU (?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): "
    r"(?P<text>GPU has fallen off the bus.*)"
)
_RESET = re.compile(
    r"amdgpu (?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): amdgpu: "
    r"(?P<text>GPU reset (?:begin!|end with ret = -(?P<error>\d{1,4})).*)"
)
_PID = re.compile(r"pid=['\"]?(?P<pid>\d{1,10}|<unknown>)['\"]?,?\s*")
_NAME = re.compile(r"name=(?P<name><unknown>|[^,]*),?\s*")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")
_PACKET = re.compile(
    r"IN=[^ ]{0,16} OUT="
)  # a packet log line starts with a prefix that users can choose
_FROM_USERS: Final = 1 << 3  # the kernel's own messages have facility 0; users can write others


def parse_record(record: str, at: float) -> Event | None:
    """Parses the event in one record of /dev/kmsg; None for anything else."""
    head = _HEAD.match(record)
    if head is None or int(head["priority"]) >= _FROM_USERS:
        return None
    text, *lines = record[head.end() :].split("\n")
    event = parse_line(text, at)
    return event if event is not None and _comes_from(event, _keys(lines)) else None


def parse_line(text: str, at: float) -> Event | None:
    """Reads an event from the text only, without the header before it and the keys after it."""
    if _PACKET.search(text):
        return None
    found = _XID.match(text)
    if found is None:
        return _fallen(text, at) or _reset(text, at)
    rest, pid = _taken(_PID, found["rest"] or "")
    rest, name = _taken(_NAME, rest)
    pids = (int(pid),) if pid and pid.isdecimal() and int(pid) > 0 else ()
    return Event(
        kind=EventKind.XID,
        uuid=None,
        at=at,
        code=int(found["code"]),
        detail=_detail(found["instance"], rest),
        source=SOURCE,
        pids=pids,
        who=tuple(Party(number, name=_known(name)) for number in pids),
        pci=found["pci"].lower(),
    )


def _keys(lines: list[str]) -> dict[str, str]:
    """Parses the keys that the kernel adds about a record's origin: ` DEVICE=+pci:0000:07:00.0`."""
    pairs = (line[1:].partition("=") for line in lines if line.startswith(" "))
    return {name: value for name, _, value in pairs}


def _comes_from(event: Event, keys: Mapping[str, str]) -> bool:
    """Whether the origin in the log agrees with the event's device: AMD's driver tags every
    line, NVIDIA's does not."""
    origin = keys.get("DEVICE")
    if origin is None:
        return event.kind is not EventKind.RESET
    address = origin.removeprefix("+pci:").partition(".")[0]
    return address == (event.pci or "").partition(".")[0]


def _fallen(text: str, at: float) -> Event | None:
    """Parses the message that accompanies or replaces Xid 79."""
    found = _FALLEN.match(text)
    if found is None:
        return None
    detail = _plain(found["text"])[:LONGEST_DETAIL]
    return Event(EventKind.XID, None, at, FALLEN, detail, SOURCE, pci=found["pci"])


def _reset(text: str, at: float) -> Event | None:
    """Parses the start or the failure of a reset; a successful end is not an event."""
    found = _RESET.match(text)
    if found is None:
        return None
    return Event(
        kind=EventKind.RESET,
        uuid=None,
        at=at,
        code=None if found["error"] is None else int(found["error"]),
        detail=_plain(found["text"])[:LONGEST_DETAIL],
        source=SOURCE,
        pci=found["pci"],
    )


def _taken(form: re.Pattern[str], text: str) -> tuple[str, str | None]:
    """Returns the text after the match at its beginning, and the matched value."""
    found = form.match(text)
    return (text, None) if found is None else (text[found.end() :], found[1])


def _known(name: str | None) -> str | None:
    return None if not name or name == "<unknown>" else _plain(name)


def _detail(instance: str, rest: str) -> str:
    """Returns the driver's details in one short line, starting with the MIG instance."""
    text = f"{instance.strip()}: {rest}" if instance.strip() else rest
    return _plain(text)[:LONGEST_DETAIL]


def _plain(text: str) -> str:
    """Replaces escaped and unprintable bytes by spaces."""
    shown = _ESCAPE.sub(" ", text)
    return " ".join("".join(c if c.isprintable() else " " for c in shown).split())
