"""Wheel and sdist as they are released: `python -m dev.release.packages [FOLDER]` (dist).

They are built by the build backend alone, with no network where the kernel lets us go without, from
a copy of the files that git knows, and with the time of the last commit (SOURCE_DATE_EPOCH). The
wheel is built from the sdist, as whoever has nothing else builds it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATIC = "src/andon/web/static"
_BUILD = "import hatchling.build as b, sys; print(b.build_{0}(sys.argv[1]))"


def version(root: Path = ROOT) -> str:
    """The version, from the one place that has it."""
    scope: dict[str, str] = {}
    exec((root / "src/andon/version.py").read_text(encoding="utf-8"), scope)
    return scope["__version__"]


@cache
def epoch() -> str:
    """When the sources were last changed: the time of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    return _git("log", "-1", "--format=%ct").strip()


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def sources() -> Iterator[str]:
    """What git knows or would take, by its path."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return (name for name in listed.split("\0") if name and (ROOT / name).is_file())


def copy_sources(folder: Path, board: bool = True) -> Path:
    """A tree of the sources alone, as a clone has it; with `board` also what was built of it."""
    for name in sources():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        target.chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)
    if board:
        shutil.copytree(ROOT / STATIC, folder / STATIC)
    return folder


def build_board(tree: Path) -> None:
    """Builds the board of a tree with the packages that npm installed here."""
    (tree / "frontend/node_modules").symlink_to(ROOT / "frontend/node_modules")
    command = [sys.executable, str(tree / "frontend/build.py")]
    subprocess.run(command, check=True, env=environment())


def environment(**more: str) -> dict[str, str]:
    """This process's, with the time of the release and nothing that leads back into this tree."""
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "ANDON_", "VIRTUAL"))
    }
    return {**kept, "SOURCE_DATE_EPOCH": epoch(), **more}


@cache
def without_network() -> tuple[str, ...]:
    """The beginning of a command that has no network; empty where the kernel does not let us."""
    unshare = shutil.which("unshare")
    for option in ("-n", "-rn") if unshare else ():
        words = (str(unshare), option)
        if subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            return words
    return ()


def build(tree: Path, kind: str, out: Path, **env: str) -> Path:
    """Builds `wheel` or `sdist` of a tree; the backend's own call, for which nothing is fetched."""
    out.mkdir(parents=True, exist_ok=True)
    command = [*without_network(), sys.executable, "-c", _BUILD.format(kind), str(out.resolve())]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, env=environment(**env))
    if done.returncode:
        raise SystemExit(f"the {kind} cannot be built: {done.stderr[-2000:]}")
    return out / done.stdout.split()[-1]


def unpack(sdist: Path, folder: Path) -> Path:
    """Unpacks an sdist; returns the tree in it."""
    with tarfile.open(sdist) as opened:
        for member in opened.getmembers():
            if member.name.startswith("/") or ".." in member.name.split("/"):
                raise SystemExit(f"{sdist.name} has a file outside: {member.name}")
        opened.extractall(folder)
    return next(folder.iterdir())


def build_all(tree: Path, work: Path, out: Path, **env: str) -> Mapping[str, Path]:
    """The sdist of a tree, and the wheel of that sdist."""
    sdist = build(tree, "sdist", out, **env)
    return {"sdist": sdist, "wheel": build(unpack(sdist, work), "wheel", out, **env)}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(arguments: list[str]) -> int:
    from tempfile import TemporaryDirectory

    out = Path(arguments[0]) if arguments else ROOT / "dist"
    subprocess.run([sys.executable, str(ROOT / "frontend/build.py")], check=True)
    with TemporaryDirectory() as folder:
        made = build_all(copy_sources(Path(folder, "clone")), Path(folder, "sdist"), out)
    for path in made.values():
        print(f"{path}  {path.stat().st_size // 1000:,} kB  sha256 {digest(path)[:16]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
