"""A small file system of a test's own, which can be filled; files that cannot grow."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conftest import need

MOUNT_BYTES = 8 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 8 MB."""
    need("mount", "umount")
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = mount("-t", "tmpfs", "-o", f"size={MOUNT_BYTES}", "tmpfs", str(folder))
    if mounted.returncode:
        pytest.skip(f"this system does not let root mount: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def mount(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["mount", *arguments], capture_output=True, text=True)


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """No file of this process grows beyond that many bytes: what is written stops there."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(path: Path) -> None:
    """To the last byte."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"0")
