"""The files that `andon setup` writes: units of systemd and what belongs to them."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from andon.errors import Conflict, Denied, Unavailable
from andon.host.files import (
    FOLDER,
    NO_FOLLOW,
    SYSTEM_FOLDER,
    lock,
    make_private,
    read_regular,
    replace_file,
)
from andon.host.interpreter import interpreter
from andon.host.rules.system_files import FileChange, change_of, filled, is_unedited, sealed
from andon.host.users import user_name

UNITS = ("andon.socket", "andon.service", "andon-hub.service", "andon-agent.service")
SYSTEM = "/etc/systemd/system"
DISPATCHER = "/etc/systemd/user/andon-dispatcher.service"
LOCK = Path("/run/andon-setup.lock")
TMPFILES, SYSUSERS = "/etc/tmpfiles.d/andon.conf", "/etc/sysusers.d/andon.conf"
SOURCES = {
    **{f"{SYSTEM}/{name}": name for name in UNITS},
    DISPATCHER: "andon-dispatcher.service",
    TMPFILES: "tmpfiles.conf",
    SYSUSERS: "sysusers.conf",
}
"""Where each file is, and the template in `units/` that it is made from."""
_TEMPLATES = Path(__file__).with_name("units")


def wanted_files(python: str) -> dict[str, str]:
    """Returns each file's text for the Python that andon is installed in."""
    start = [python, "-P"]
    andon = [*start, "-X", "faulthandler", "-m", "andon.cli"]
    found = {path: (_TEMPLATES / name).read_text("utf-8") for path, name in SOURCES.items()}
    return {path: sealed(filled(text, ANDON=andon, PYTHON=start)) for path, text in found.items()}


def safe_interpreter() -> str:
    """Returns this andon's Python, once nobody but root can change either; Denied otherwise: its
    code will run as root."""
    python = interpreter()
    for path in (Path(python), Path(python).resolve(), Path(__file__).resolve()):
        for one in (path, *path.parents):
            found = one.lstat()
            open_to_all = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
            if found.st_uid != 0 or (open_to_all and not stat.S_ISLNK(found.st_mode)):
                whose = user_name(found.st_uid) if found.st_uid else "others than root"
                raise Denied(
                    f"{one} may be changed by {whose}, and units would run it as root",
                    hint="install andon in a folder of root, such as /opt/andon",
                )
    return python


class SystemFiles:
    """What a machine has of these files, below `root`, and what andon would write."""

    def __init__(self, root: Path, wanted: Mapping[str, str]) -> None:
        self._root, self.wanted = root, wanted
        self.present = {path: self._read(path) for path in wanted}
        self.changes = {p: change_of(self.present[p], text) for p, text in wanted.items()}

    def to_write(self) -> list[str]:
        return [p for p, c in self.changes.items() if c in (FileChange.NEW, FileChange.UPDATE)]

    def to_remove(self) -> list[str]:
        """Returns the files that andon wrote and nobody edited."""
        return [p for p, text in self.present.items() if text is not None and is_unedited(text)]

    def write(self, path: str) -> None:
        """Writes a file whole or not at all."""
        with _explained(path, "written"):
            make_private(self._place(path).parent, SYSTEM_FOLDER)
            replace_file(self._place(path), self.wanted[path].encode(), 0o644)

    def remove(self, path: str) -> None:
        with _explained(path, "removed"):
            self._place(path).unlink(missing_ok=True)

    def _place(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _read(self, path: str) -> str | None:
        try:
            return read_regular(self._place(path), follow=True).decode(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise Unavailable(f"{path} cannot be read: {exc.strerror}") from exc


@contextmanager
def sole_setup(root: Path) -> Iterator[None]:
    """One `andon setup` at a time writes below a root. That of this machine is a folder that anyone
    may lock: there it is a file of root's; others only look."""
    if root != Path("/"):
        locked = os.open(root, os.O_RDONLY | FOLDER | os.O_CLOEXEC)
    elif os.geteuid() == 0:
        locked = os.open(LOCK, os.O_WRONLY | os.O_CREAT | NO_FOLLOW | os.O_CLOEXEC, 0o600)
    else:
        yield
        return
    try:
        try:
            lock(locked)
        except BlockingIOError:
            hint = "try again when it has ended"
            raise Conflict("another andon setup is writing here", hint=hint) from None
        yield
    finally:
        os.close(locked)


@contextmanager
def _explained(path: str, action: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise Unavailable(
            f"{path} cannot be {action}: {exc.strerror}",
            hint="what was said before is done; run it again when this is mended",
        ) from exc
