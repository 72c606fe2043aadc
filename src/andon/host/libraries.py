"""Finds every libnvidia-ml.so.1 and which one the loader would use; loads none."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from andon.host.files import read_bytes
from andon.host.rules.nvml_library import Library

NAME = "libnvidia-ml.so.1"
CACHE_BYTES = 16 * 1024 * 1024
LONGEST_PATH = 4096
HEAD_BYTES = 20  # of an ELF file: contains its word size and machine
_MAX_FOLDERS = 64
_OFF_PATH = (
    "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib64/nvidia",
    "/usr/lib/nvidia", "/usr/lib/nvidia/current", "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu", "/usr/lib/i386-linux-gnu", "/run/opengl-driver/lib",
    "/home/kubernetes/bin/nvidia/lib64", "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/nvidia/driver/usr/lib64", "/opt/nvidia/lib64", "/usr/local/cuda/lib64/stubs",
)  # fmt: skip
"""Where drivers, containers, WSL, NixOS and cluster images put it outside the loader's path."""


def find_libraries(own: Path, env: Mapping[str, str]) -> tuple[Library, ...]:
    """Returns libraries in the loader's order, then those that it would not find; each once."""
    found: dict[str, Library] = {}
    for library in libraries(own, env):
        found.setdefault(library.target or library.path, library)
    return tuple(found.values())


def libraries(own: Path, env: Mapping[str, str]) -> Iterator[Library]:
    """Yields libraries as they are found, possibly a file twice, for callers that need only the
    first."""
    for path, source in _places(own, env):
        library = _library(own, path, source)
        if library is not None:
            yield library


def _places(own: Path, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    variable = env.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    for folder in variable[:_MAX_FOLDERS]:
        if folder.startswith("/"):
            yield f"{folder.rstrip('/')}/{NAME}", "LD_LIBRARY_PATH"
    for path in cached(read_bytes(own / "etc/ld.so.cache", CACHE_BYTES)):
        yield path, "the loader's cache"
    machine = os.uname().machine if hasattr(os, "uname") else ""
    for folder in default_folders(machine):
        yield f"{folder}/{NAME}", "a default folder"
    for folder in _OFF_PATH:
        yield f"{folder}/{NAME}", ""


def cached(content: bytes) -> list[str]:
    """Returns the paths listed in ld.so.cache, in its order; it contains them as plain text."""
    found: dict[str, None] = {}
    name, end = f"/{NAME}\0".encode(), 0
    while (end := content.find(name, end) + len(name)) >= len(name):
        begin = content.find(b"/", content.rfind(b"\0", 0, end - 1) + 1)
        if end - begin <= LONGEST_PATH:
            found[os.fsdecode(content[begin : end - 1])] = None
    return list(found)


def default_folders(machine: str) -> tuple[str, ...]:
    """Returns the folders that glibc searches last; Debian's contain the machine name."""
    own = f"{machine}-linux-gnu"
    return (f"/lib/{own}", f"/usr/lib/{own}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def _library(own: Path, path: str, source: str) -> Library | None:
    place = own / path.lstrip("/")
    try:
        target = place.resolve(strict=True)
        size = target.stat().st_size
    except (OSError, RuntimeError):
        return None
    if own != Path("/"):
        target = Path("/") / target.relative_to(own.resolve())
    return Library(
        path,
        source,
        str(target),
        size,
        fits(read_bytes(place, HEAD_BYTES), read_bytes(Path(sys.executable), HEAD_BYTES)),
    )


def fits(library: bytes, program: bytes) -> bool | None:
    """Whether both are ELF files of the same word size and machine; None if unknown."""
    if library[:4] != b"\x7fELF" or program[:4] != b"\x7fELF":
        return None
    return (library[4], library[18:20]) == (program[4], program[18:20])
