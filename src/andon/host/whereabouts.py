"""Where this user's server is: a small file beside its token, while it runs."""

import json
import os
from contextlib import suppress
from pathlib import Path

NAME = "server.json"
LONGEST_BYTES = 4096
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (told, not bound)


def announce(folder: Path, url: str, address: str) -> None:
    """Say where it is; what cannot be written is done without."""
    scheme, _, place = url.partition("://")
    port = place.rpartition(":")[2]
    host = _EVERYWHERE.get(address, address)
    here = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    draft = folder / f"{NAME}.{os.getpid()}"
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o600), "w", encoding="utf-8") as file:
            json.dump({"url": here, "pid": os.getpid()}, file)
        draft.replace(folder / NAME)


def withdraw(folder: Path) -> None:
    """Take back what this process said; another may have said something since."""
    with suppress(OSError):
        if _read(folder).get("pid") == os.getpid():
            (folder / NAME).unlink()


def find(folder: Path) -> str | None:
    """The URL of a server that this user started and whose process is there."""
    said = _read(folder)
    url, pid = said.get("url"), said.get("pid")
    if not isinstance(url, str) or not isinstance(pid, int) or pid <= 0:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return url


def _read(folder: Path) -> dict[str, object]:
    try:
        with (folder / NAME).open("rb") as file:
            found = json.loads(file.read(LONGEST_BYTES))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
