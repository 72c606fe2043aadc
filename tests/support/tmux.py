"""A real terminal: a shell in a window of a tmux server of its own."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

SHELL = "env PS1='rc $? $ ' bash --norc --noprofile"


class Tmux:
    """A context manager; `environment` is that of the shell. Its prompt tells the exit code."""

    def __init__(
        self,
        folder: Path,
        width: int = 80,
        height: int = 20,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._socket = folder / "tmux"
        self._environment = {**os.environ, **(environment or {})}
        size = ("-x", str(width), "-y", str(height))
        self("-f", "/dev/null", "new-session", "-d", *size, "-s", "w", SHELL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self("kill-server")

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), *words]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env=self._environment
        ).stdout

    def type(self, *keys: str) -> None:
        self("send-keys", "-t", "w", *keys)

    def renew(self) -> None:
        """Another shell, in a terminal as it is at first: what was killed has not restored it."""
        self("respawn-pane", "-k", "-t", "w", SHELL)

    def resize(self, width: int, height: int) -> None:
        self("resize-window", "-t", "w", "-x", str(width), "-y", str(height))

    def screen(self, *options: str) -> str:
        return self("capture-pane", "-t", "w", "-p", *options)

    def whole(self) -> str:
        return self("capture-pane", "-t", "w", "-p", "-S", "-200")

    def told(self, what: str) -> str:
        return self("display", "-p", "-t", "w", f"#{{{what}}}").strip()

    def children(self) -> list[int]:
        """The processes that the shell has started."""
        pid = self.told("pane_pid")
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        return [int(word) for word in found.split()]
