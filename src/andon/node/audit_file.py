"""Reads the audit log of this user's server on this machine."""

from collections.abc import Iterator
from pathlib import Path

from andon.errors import Denied
from andon.host.files import read_regular

NAME = "audit.jsonl"
EARLIER = f"{NAME}.1"
LARGEST_BYTES = 20_000_000  # twice the size at which it is rotated


def audit_lines(folder: Path) -> Iterator[str]:
    """Yields all lines, oldest first; none if no server has written any."""
    for name in (EARLIER, NAME):
        try:
            content = read_regular(folder / name, LARGEST_BYTES)
        except FileNotFoundError:
            continue
        except OSError as exc:
            hint = "move it away: the server begins another"
            if isinstance(exc, PermissionError):
                hint = "only the user who runs the server can read it"
            raise Denied(f"{folder / name} cannot be read: {exc.strerror}", hint=hint) from exc
        yield from content.decode("utf-8", "replace").splitlines()
