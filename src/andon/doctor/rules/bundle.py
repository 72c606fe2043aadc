"""What an archive for a bug report has: parts by name, without secrets, of bounded size."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from andon.model.device import Snapshot
from andon.model.redaction import HIDDEN, redact_text
from andon.units import printable

MOST_BYTES = 1_000_000  # of each part
SHORTEST_SECRET = 8  # a shorter one occurs in innocent words


def without_commands(snapshot: Snapshot) -> Snapshot:
    """Returns the snapshot without anybody's command line: names of users and programs stay."""
    devices = tuple(
        replace(one, processes=tuple(replace(each, command=None) for each in one.processes))
        for one in snapshot.devices
    )
    return replace(snapshot, devices=devices)


def redacted_log(text: str) -> str:
    """Returns lines of a log, each without what looks like a secret."""
    return "".join(f"{redact_text(printable(line))}\n" for line in text.splitlines())


def safe_parts(parts: Mapping[str, str], secrets: Iterable[str]) -> dict[str, bytes]:
    """Returns the parts in the order of their names, without these secrets wherever they stand."""
    known = sorted({one for one in secrets if len(one) >= SHORTEST_SECRET}, key=len, reverse=True)
    found = dict[str, bytes]()
    for name, text in sorted(parts.items()):
        for secret in known:
            text = text.replace(secret, HIDDEN)
        content = text.encode(errors="replace")
        if len(content) > MOST_BYTES:
            content = f"left out: it has {len(content)} bytes\n".encode()
        found[name] = content
    return found
