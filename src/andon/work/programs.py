"""Whether a command can be started at all, checked before anything is claimed for it."""

import os
import re
import shutil
from collections.abc import Sequence

from andon.errors import AndonError

NOT_EXECUTABLE, NOT_FOUND = 126, 127
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")


class CannotStart(AndonError):
    """The command was not found or is not executable; `code` is what a shell returns for that."""

    def __init__(self, reason: str, code: int, hint: str = "") -> None:
        super().__init__(reason, hint)
        self.code = code


def find(command: Sequence[str]) -> str:
    """The program's path; CannotStart where there is none, before anything is claimed for it."""
    name = command[0]
    found = shutil.which(name)
    if found is not None:
        return found
    path = os.path.realpath(name) if os.sep in name else shutil.which(name, os.F_OK)
    if path is None or not os.path.exists(path):  # noqa: PTH110 - a name may hold anything
        raise CannotStart(f"{name or repr(name)}: command not found", NOT_FOUND, hint=_meant(name))
    if os.path.isdir(path):  # noqa: PTH112
        raise CannotStart(f"{name}: is a directory", NOT_EXECUTABLE)
    raise CannotStart(f"{name}: not executable", NOT_EXECUTABLE, hint=f"chmod +x {name}")


def _meant(name: str) -> str:
    """What someone may have meant whose command does not exist."""
    if name.replace(":", "").isdecimal():
        return f"to name a GPU: -d {name}"
    if _VARIABLE.match(name):
        return f"to set a variable: env {name} COMMAND"
    return "write its words without quotes, or: sh -c 'LINE'" if " " in name else ""


def shell() -> list[str]:
    """The user's shell."""
    return [os.environ.get("SHELL") or "/bin/sh"]
