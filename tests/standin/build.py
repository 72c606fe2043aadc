"""Builds the stand-in library with any available C compiler."""

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from . import layout, node

LIBRARY = "libnvidia-ml.so.1"
HEADER_PACKAGE = "nvidia-nvml-dev"

_HERE = Path(__file__).parent
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra")
_LINK = ("-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}")


class BuildError(Exception):
    """The stand-in cannot be built; the message says what to install."""


def build(folder: Path, compiler: Sequence[str] | None = None) -> Path:
    """Compile the library into `folder`, unless it exists already, and return the folder."""
    compiler = find_compiler() if compiler is None else tuple(compiler)
    include = find_header()
    sources = sorted(_HERE.glob("*.c"))
    default = _default_header()
    command = [*compiler, *_FLAGS, *_LINK, *layout.DEFINES, f"-I{include}"]
    stamp = _stamp([*command, sysconfig.get_platform()], default)
    library, marker = folder / LIBRARY, folder / f"{LIBRARY}.stamp"
    if library.exists() and marker.exists() and marker.read_text() == stamp:
        return folder

    folder.mkdir(parents=True, exist_ok=True)
    # Under unique names until complete: parallel tests may build into the same folder.
    scratch = folder / f"build-{os.getpid()}"
    scratch.mkdir(exist_ok=True)
    try:
        (scratch / "default_control.h").write_text(default)
        made = scratch / LIBRARY
        done = subprocess.run(
            [*command, f"-I{scratch}", "-o", str(made), *map(str, sources)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildError(f"{compiler[0]} could not build the stand-in:\n{done.stderr}")
        made.replace(library)
        marker.write_text(stamp)
    finally:
        shutil.rmtree(scratch)
    return folder


def find_compiler() -> tuple[str, ...]:
    """The command that compiles C here."""
    for name in ("cc", "gcc"):
        if path := shutil.which(name):
            return (path,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "cc")
    raise BuildError("no C compiler: install gcc, or `pip install ziglang`")


def find_header() -> Path:
    """The folder of nvml.h, inside the installed package that provides it."""
    try:
        files = importlib.metadata.files(HEADER_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nvml.h":
            return Path(str(file.locate())).parent
    raise BuildError(f"no nvml.h: `pip install {HEADER_PACKAGE}`")


def _default_header() -> str:
    """The header with the default node for when no folder is set: described once, in Python."""
    lines = node.default_control().splitlines()
    text = "\n".join(f'    "{line}\\n" \\' for line in lines)
    return f"#define DEFAULT_CONTROL \\\n{text}\n\n"


def _stamp(command: Sequence[str], default: str) -> str:
    digest = hashlib.sha256("\0".join([*command, default]).encode())
    for source in sorted(_HERE.glob("*.[ch]")):
        digest.update(source.read_bytes())
    return digest.hexdigest()
