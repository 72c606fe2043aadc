"""Reads the kernel's small files: a value, or the reason why there is none; never raises.

Every file is opened through one replaceable function, so that a test can prove which files of a
sleeping card were not read.
"""

import errno
import grp
import os
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from andon.host.files import PAGE_BYTES, read_file

T = TypeVar("T")
U = TypeVar("U")

Opener = Callable[[str], bytes]
"""Returns the content of a file, or raises OSError."""

Lister = Callable[[str, int], list[str]]
"""Returns at most this many names in a folder, or raises OSError."""

LONGEST_BYTES: Final = 4 << 20
MOST_NAMES: Final = 65536
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENODATA, errno.ENXIO, errno.ENOSYS})
_SILENT: Final = frozenset({errno.EIO, errno.ETIMEDOUT, errno.ETIME, errno.EREMOTEIO})


class SysfsValue(Struct, Generic[T], frozen=True):
    """A value, or why there is none."""

    value: T | None = None
    reason: str = ""
    absent: bool = False  # no such file: another may have the value

    def then(self, use: Callable[[T], U]) -> "SysfsValue[U]":
        """Returns the same answer, with the value converted."""
        if self.value is None:
            return SysfsValue(None, self.reason, self.absent)
        return SysfsValue(use(self.value))


def read_bytes(path: str) -> bytes:
    """The content of a small file; sysfs returns all of it at once, debugfs page by page."""
    return read_file(path, LONGEST_BYTES, PAGE_BYTES)


def list_names(path: str, most: int) -> list[str]:
    """Returns the names in a folder. Listing a device's folder does not wake it."""
    with os.scandir(path) as entries:
        return [entry.name for entry in islice(entries, most)]


class Tree:
    """A part of the file system under a root; paths are relative to it."""

    def __init__(
        self,
        root: str | Path = "/",
        opener: Opener = read_bytes,
        lister: Lister = list_names,
    ) -> None:
        self.root = str(root).rstrip("/")
        self._open, self._list = opener, lister

    def below(self, path: str) -> "Tree":
        """Returns the tree under a folder of this one."""
        return Tree(f"{self.root}/{path}", self._open, self._list)

    def at(self, folder: Path) -> "Tree":
        """Returns a tree elsewhere, with the same way to open files."""
        return Tree(folder, self._open, self._list)

    def raw(self, path: str) -> SysfsValue[bytes]:
        try:
            return SysfsValue(self._open(f"{self.root}/{path}"))
        except OSError as error:
            return self._failed(path, error)
        except ValueError:  # a name with a zero byte in it
            return SysfsValue(None, f"{path!r} is not a valid file name")

    def text(self, path: str) -> SysfsValue[str]:
        return self.raw(path).then(lambda content: content.decode("utf-8", "replace").strip())

    def integer(self, path: str) -> SysfsValue[int]:
        """Returns an integer, decimal or with the prefix 0x."""
        return _parsed(self.text(path), path, _number)

    def first(self, paths: Iterable[str], read: Callable[[str], SysfsValue[T]]) -> SysfsValue[T]:
        """Returns the first of several files that exists; the first one's reason if none does."""
        answers: list[SysfsValue[T]] = []
        for path in paths:
            answers.append(read(path))
            if not answers[-1].absent:
                return answers[-1]
        return answers[0]

    def names(self, path: str = "") -> list[str]:
        """Returns the names in a folder, sorted; empty if it cannot be listed."""
        try:
            return sorted(self.listed(path, MOST_NAMES))
        except (OSError, ValueError):
            return []

    def listed(self, path: str, most: int) -> list[str]:
        """Returns the names unsorted; raises OSError if the folder cannot be listed."""
        return self._list(f"{self.root}/{path}", most)

    def exists(self, path: str) -> bool:
        return Path(f"{self.root}/{path}").exists()

    def real(self, path: str) -> Path:
        """Returns the final target of a link."""
        return Path(f"{self.root}/{path}").resolve()

    def _failed(self, path: str, error: OSError) -> SysfsValue[Any]:
        denied = error.errno == errno.EACCES
        who = self._who_may(path) if denied else ""
        return SysfsValue(None, failure(path, error.errno, who), error.errno in _ABSENT)

    def _who_may(self, path: str) -> str:
        """Returns who could read a file, from its mode; the file is not opened."""
        try:
            status = Path(f"{self.root}/{path}").stat()
            if status.st_mode & 0o040 and status.st_gid != 0:
                return f"join the group {grp.getgrgid(status.st_gid).gr_name}"
        except (OSError, KeyError, ValueError):
            pass
        return "run andon as root, or with CAP_DAC_READ_SEARCH"


def failure(path: str, code: int | None, who: str = "") -> str:
    """Returns the reason why a file could not be read."""
    name = path.rpartition("/")[2]
    if code in _ABSENT:
        return f"not reported by this kernel (no {name})"
    if code == errno.EACCES:
        return f"no permission to read {name}: {who or 'run andon as root'}"
    if code == errno.EPERM:  # amdgpu's answer for a card that is being suspended
        return f"the driver does not allow reading {name} now"
    if code == errno.EBUSY:
        return f"the driver is busy (reset or suspend) and did not return {name}"
    if code in _UNSUPPORTED:
        return "not supported by this device"
    if code == errno.ENODEV:
        return "the device was removed"
    if code in _SILENT:
        return f"the card did not respond when reading {name}"
    word = errno.errorcode.get(code or 0, "an error")
    return f"the driver returned {word} for {name}"


def _number(text: str) -> int:
    return int(text, 16 if text.startswith("0x") else 10)


def _parsed(answer: SysfsValue[str], path: str, parse: Callable[[str], T]) -> SysfsValue[T]:
    if answer.value is None:
        return SysfsValue(None, answer.reason, answer.absent)
    try:
        return SysfsValue(parse(answer.value))
    except ValueError:
        name = path.rpartition("/")[2]
        return SysfsValue(None, f"{name} is not a number: {answer.value[:40]!r}")


# hwmon: sensor numbers are fixed by the driver, folder numbers are not.


def hwmon(device: Tree, names: Iterable[str]) -> str | None:
    """Returns the folder of the device's sensors, found by its driver's name."""
    wanted = set(names)
    for folder in device.names("hwmon"):
        if folder.startswith("hwmon") and device.text(f"hwmon/{folder}/name").value in wanted:
            return f"hwmon/{folder}"
    return None


def labels(device: Tree, folder: str, sensor: str) -> dict[str, str]:
    """The sensors of one kind by label, such as `temp2`; those without a label are left out."""
    found: dict[str, str] = {}
    for name in device.names(folder):
        if name.startswith(sensor) and name.endswith("_label"):
            label = device.text(f"{folder}/{name}").value
            if label:
                found.setdefault(label, name.removesuffix("_label"))
    return found


def system_memory(tree: Tree) -> tuple[int | None, int | None]:
    """Total and available bytes of the system's memory."""
    return parse_meminfo(tree.text("proc/meminfo").value or "")


def parse_meminfo(text: str) -> tuple[int | None, int | None]:
    table = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[1].isdecimal() and fields[1].isascii():
            table[fields[0]] = int(fields[1]) * 1024
    return table.get("MemTotal:"), table.get("MemAvailable:")
