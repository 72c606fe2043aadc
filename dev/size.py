"""Prints lines and files of each package of src/andon and how they changed: `dev/size [COMMIT]`.

The change is the one since the commit named, else since the last tag, else since the newest commit
that bench/baseline.toml pins. Beneath stands how many modules `andon status` imports, from the
golden file that tests/unit/house/test_imports.py holds.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "src/andon/"
PINS = ROOT / "bench/baseline.toml"
LOADED = ROOT / "tests/golden/loaded.json"
LOOSE = "(modules)"
"""The row of the modules beside the packages."""
GONE = "(gone)"
"""The row of the packages that were there before."""


@dataclass(frozen=True)
class Size:
    """How much Python a package has."""

    lines: int = 0
    files: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.lines + other.lines, self.files + other.files)


def sizes(lines: Mapping[str, int]) -> dict[str, Size]:
    """The sizes of packages, from the lines of each file by its path within src/andon."""
    found: dict[str, Size] = {}
    for path, count in lines.items():
        package, slash, _ = path.partition("/")
        name = package if slash else LOOSE
        found[name] = found.get(name, Size()) + Size(count, 1)
    return found


def table(now: Mapping[str, Size], then: Mapping[str, Size] | None) -> list[str]:
    """A row for each package; those that are gone share one. Without `then`, no changes."""
    before = then or {}
    gone = {name: before[name] for name in sorted(before) if name not in now}
    rows = [(name, now[name], before.get(name, Size()), "") for name in sorted(now)]
    if gone:
        rows.append((GONE, Size(), total(gone), ", ".join(gone)))
    rows.append(("total", total(now), total(before), ""))
    lines = [f"{'src/andon':<14} {'lines':>7} {'':>7} {'files':>5}"]
    for name, size, old, note in rows:
        more = size.lines - old.lines, size.files - old.files
        changes = tuple(f"{one:+}" if then is not None and one else "" for one in more)
        row = f"{name:<14} {size.lines:>7} {changes[0]:>7} {size.files:>5} {changes[1]:>5}  {note}"
        lines.append(row.rstrip())
    return lines


def total(found: Mapping[str, Size]) -> Size:
    return sum(found.values(), Size())


def lines_here() -> dict[str, int]:
    root = ROOT / SOURCE
    return {
        str(path.relative_to(root)): path.read_bytes().count(b"\n") for path in root.rglob("*.py")
    }


def lines_at(commit: str) -> dict[str, int]:
    """The same at a commit; git counts the lines, and lists the files that have none."""
    names = _git("ls-tree", "-r", "--name-only", commit, SOURCE).splitlines()
    found = {name.removeprefix(SOURCE): 0 for name in names if name.endswith(".py")}
    for line in _git("grep", "-c", "", commit, "--", f"{SOURCE}*.py").splitlines():
        name, _, count = line.removeprefix(f"{commit}:{SOURCE}").rpartition(":")
        found[name] = int(count)
    return found


def earlier() -> str:
    """The last tag, else the newest of the pinned commits."""
    try:
        return _git("describe", "--tags", "--abbrev=0").strip()
    except subprocess.CalledProcessError:
        pins = set(tomllib.loads(PINS.read_text(encoding="utf-8"))["pins"].values())
        newest, *_ = _git("rev-list", "--no-walk=sorted", "--abbrev-commit", *pins).split()
        return newest


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def main(words: Sequence[str]) -> int:
    then, title = None, "their change is unknown: git does not have the commit to compare with"
    try:
        commit = words[0] if words else earlier()
        then, title = sizes(lines_at(commit)), f"the change is that since {commit}"
    except (OSError, subprocess.CalledProcessError, ValueError):
        if words:
            print(f"dev/size: git knows no commit {words[0]}", file=sys.stderr)
            return 2
    print(*table(sizes(lines_here()), then), sep="\n")
    status = len(json.loads(LOADED.read_text(encoding="utf-8"))["status"]["modules"])
    print(f"{title}; `andon status` imports {status} modules (tests/golden/loaded.json)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
