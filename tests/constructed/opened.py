"""An opener that remembers what was opened, and can refuse as the kernel would."""

import errno
import os
from collections.abc import Mapping

from andon.drivers.shared.sysfs import list_names, read_bytes


class Openings:
    """Stands for the system's open: root may read everything, so refusals are played here."""

    def __init__(self, refusals: Mapping[str, int] | None = None) -> None:
        self.paths: list[str] = []
        self.refusals = dict(refusals or {})  # the end of a path -> what the kernel answers

    def __call__(self, path: str) -> bytes:
        self.paths.append(os.path.realpath(path))
        for end, code in self.refusals.items():
            if path.endswith(end):
                raise OSError(code, os.strerror(code), path)
        return read_bytes(path)

    def listing(self, path: str, most: int) -> list[str]:
        for end, code in self.refusals.items():
            if path.endswith(end):
                raise OSError(code, os.strerror(code), path)
        return list_names(path, most)

    def under(self, folder: str) -> list[str]:
        """What was opened of a device, relative to its folder."""
        return [path.partition(f"{folder}/")[2] for path in self.paths if f"{folder}/" in path]


DENIED = errno.EACCES
