"""Copies a working folder to a host before a job: what git tracks and does not ignore."""

import os
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from msgspec import Struct

from andon.errors import AndonError, Invalid, Unavailable
from andon.model.codec import Name, Text, read
from andon.node.ssh import failures
from andon.node.ssh.client import SshHost
from andon.node.ssh.script import connect_seconds, ssh_command
from andon.units import human_bytes, plain, sh

MOST_FILES: Final = 20_000
MOST_BYTES: Final = 1 << 30
LIMIT: Final = f"{MOST_FILES:,} files and {human_bytes(MOST_BYTES)} are copied at most"
GIT_SECONDS: Final = 30.0
_LIST = ("ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", ".")


class CopiedFolder(Struct, frozen=True):
    """A folder that was copied."""

    path: str
    files: int
    bytes: int


class _Place(Struct, frozen=True):
    """The folder that a host made for a copy."""

    path: Text
    name: Name


def copied_folder(host: SshHost, folder: str, name: str) -> CopiedFolder:
    """Copies the files of a folder into a folder of their own on the host."""
    files = _checked(folder)
    place = read(_Place, host.desk("place", f"{Path(folder).name or 'folder'}-{name}"))
    command = (*ssh_command(host.name, host.seconds)[:-1], f"tar -xf - -C {sh(place.path)}")
    with TemporaryFile() as printed:  # tar may say more than a pipe holds
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=printed
        ) as ssh:
            assert ssh.stdin is not None
            _archive(ssh.stdin, folder, files)
            with suppress(BrokenPipeError):
                ssh.stdin.close()
        printed.seek(0)
        errors = printed.read(1 << 16)
    if ssh.returncode == 255:
        raise failures.not_connected(host.name, 255, b"", errors, connect_seconds(host.seconds))
    if ssh.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise Unavailable(f"the folder was not copied: {plain(lines[0] if lines else 'tar', 200)}")
    return CopiedFolder(place.path, len(files), sum(files.values()))


def _archive(to: IO[bytes], folder: str, files: Iterable[str]) -> None:
    try:
        with tarfile.open(fileobj=to, mode="w|") as archive:
            for one in files:
                with suppress(FileNotFoundError):  # it was deleted meanwhile
                    archive.add(f"{folder}/{one}", one, recursive=False)
    except BrokenPipeError:  # tar there has ended, and says why
        pass
    except OSError as exc:
        raise Invalid(f"{exc.filename or folder} cannot be copied: {exc.strerror or exc}") from exc


def _checked(folder: str) -> dict[str, int]:
    """Returns the files to copy and their sizes, within the limits."""
    found, total = dict[str, int](), 0
    for name in _files(folder):
        with suppress(FileNotFoundError, NotADirectoryError):
            found[name] = os.lstat(f"{folder}/{name}").st_size
            total += found[name]
        if len(found) > MOST_FILES or total > MOST_BYTES:
            why = f"{folder} is too large: {LIMIT}"
            raise Invalid(why, hint="name in .gitignore what the job does not need")
    if not found:
        raise Invalid(f"{folder} has no files to copy")
    return found


def _files(folder: str) -> Iterator[str]:
    """Yields what git tracks or does not ignore, also of repositories within; else all files."""
    for name in _listed(folder) or _all(folder):
        path = Path(folder, name)
        if (path / ".git").exists() and not path.is_symlink():
            yield from (f"{name.rstrip('/')}/{one}" for one in _files(str(path)))
        else:
            yield name


def _listed(folder: str) -> list[str]:
    """Returns the files that git tracks or does not ignore; none where there is no git."""
    try:
        done = subprocess.run(
            ("git", "-C", folder, "--no-optional-locks", *_LIST), env={**os.environ, "LC_ALL": "C"},
            capture_output=True, timeout=GIT_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return []
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Unavailable(f"git does not list {folder}: {exc}") from exc
    if done.returncode != 0 and b"not a git repository" not in done.stderr:
        why = plain(done.stderr.decode(errors="replace").partition("\n")[0], 200)
        raise Invalid(f"git does not list {folder}: {why}")
    return [os.fsdecode(one) for one in done.stdout.split(b"\0") if one]


def _all(folder: str) -> Iterator[str]:
    def failed(exc: OSError) -> None:
        raise AndonError(f"{exc.filename} cannot be read: {exc.strerror}")

    for above, folders, names in os.walk(folder, onerror=failed):
        links = [one for one in folders if os.path.islink(f"{above}/{one}")]  # noqa: PTH114
        for name in (*names, *links):
            yield os.path.relpath(f"{above}/{name}", folder)
