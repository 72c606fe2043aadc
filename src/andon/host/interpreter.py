"""Commands that start andon's own Python processes, which import from where this one does."""

import errno
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from andon.host.files import expanded

_MODULE = "andon.process"
_TRY = "import andon.process as p; p.take_path(); import msgspec"
TRY_SECONDS = 20.0
_NAME = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def process_command(name: str, *arguments: str, site: bool = True) -> list[str]:
    """Returns the command of a process of `andon.process`. Without -P, Python would import from the
    current folder first. `site` runs the start-up files of every installed package, which may take
    longer than the rest; a process that a person waits for starts without."""
    return [interpreter(), "-P", *(() if site else ("-S",)), "-m", _MODULE, name, *arguments]


def isolated_command(*arguments: str) -> list[str]:
    """The command of a script, or of -c, that imports only the standard library, without site."""
    return [interpreter(), "-I", "-S", *arguments]


def interpreter() -> str:
    """Returns the Python for andon's processes: this one. If this is a program that embeds Python,
    it is the first one found that runs; FileNotFoundError if none does."""
    # A program that is frozen, or embeds Python, would start itself.
    own = () if hasattr(sys, "frozen") else (sys.executable, getattr(sys, "_base_executable", None))
    known = [one for one in own if one and Path(one).name.startswith(("python", "pypy"))]
    found = known[0] if known and _is_this(known[0]) else _first_that_runs(*known)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, f"no {_NAME} was found that can load andon")
    return found


def module_environment(given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment for a process of `andon.process`: PYTHONPATH has the folders that
    this process imports from, except the current one, whose files nobody chose to run. The process
    may run in another folder, so the path of the configuration is made absolute."""
    try:
        current = Path.cwd()
    except OSError:  # it was removed
        current = Path("/")
    library, own = Path(os.__file__).parent, Path(__file__).parents[2]
    left_out = (current, library, library / "lib-dynload")  # each Python has its own library
    found = [path for one in sys.path if (path := current / os.fsdecode(one)) not in left_out]
    first = [given["PYTHONPATH"], own] if given.get("PYTHONPATH") else [own]
    added = {"PYTHONPATH": first, "ANDON_PYTHONPATH": [own, *found]}
    paths = {name: os.pathsep.join(map(str, path)) for name, path in added.items()}
    if named := given.get("ANDON_CONFIG"):
        paths["ANDON_CONFIG"] = str(current / expanded(named))
    return {**given, **paths}


def _is_this(python: str) -> bool:
    try:
        return Path(python).samefile("/proc/self/exe")
    except OSError:  # there is no such file, or no /proc
        return not os.path.lexists("/proc/self/exe")


@cache
def _first_that_runs(*known: str) -> str | None:
    """Returns the first Python that can import, from this process's path, what a reader needs."""
    import subprocess
    from shutil import which

    beside = [f"{one}/bin/{_NAME}" for one in (sys.exec_prefix, sys.base_exec_prefix)]
    for one in filter(None, (*known, *beside, *map(which, (_NAME, "python3", "python")))):
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                [one, "-P", "-S", "-c", _TRY], env=module_environment(), cwd="/", check=True,
                stdin=subprocess.DEVNULL, capture_output=True, timeout=TRY_SECONDS,
            )  # fmt: skip
            return one
    return None
