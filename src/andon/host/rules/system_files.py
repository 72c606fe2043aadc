"""Decides what happens to a file that andon writes for an administrator, who may edit it."""

import re
from difflib import unified_diff
from enum import StrEnum
from hashlib import sha256

SEAL = "# Written by andon setup, sha256 "
MOST_LINES = 40  # of a difference


class FileChange(StrEnum):
    """What writing a file does."""

    NEW = "new"
    SAME = "up to date"
    UPDATE = "new version"
    EDITED = "kept: it was edited"


def sealed(text: str) -> str:
    """Returns the text under a line with its digest, by which an edit is seen later."""
    return f"{SEAL}{sha256(text.encode()).hexdigest()}\n{text}"


def is_unedited(content: str) -> bool:
    """Whether andon wrote this, and nobody changed it."""
    first, _, rest = content.partition("\n")
    return first.startswith(SEAL) and f"{first}\n{rest}" == sealed(rest)


def change_of(present: str | None, wanted: str) -> FileChange:
    if present is None:
        return FileChange.NEW
    if present == wanted:
        return FileChange.SAME
    return FileChange.UPDATE if is_unedited(present) else FileChange.EDITED


def difference(path: str, present: str, wanted: str) -> list[str]:
    """Returns what an edited file has instead of andon's lines; bounded."""
    old, new = (_without_seal(one).splitlines() for one in (wanted, present))
    found = list(unified_diff(old, new, "andon's", path, n=0, lineterm=""))
    more = len(found) - MOST_LINES
    return found if more <= 0 else [*found[:MOST_LINES], f"… {more} more lines"]


def _without_seal(text: str) -> str:
    return text.partition("\n")[2] if text.startswith(SEAL) else text


def filled(template: str, **commands: list[str]) -> str:
    """Returns a unit with the words of a command in place of each @NAME@."""
    for name, words in commands.items():
        template = template.replace(f"@{name}@", " ".join(map(systemd_word, words)))
    return template


def systemd_word(text: str) -> str:
    """Returns a word as a command line of a unit has it, which knows quotes, % and $."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return escaped if re.fullmatch(r"[\w./:@%+=,-]+", escaped) else f'"{escaped}"'
