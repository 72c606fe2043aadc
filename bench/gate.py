"""Costs now beside those of the best commit of each figure: `python -m bench.gate`.

Both versions run in turns, in one run, on one stand-in node; ratios above the limit are named and
make the exit code 1. `bench/baseline.toml` has the pins.
"""

import argparse
import compileall
import io
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from bench import nodes
from bench.gate_figures import FIGURES, Version

ROOT = Path(__file__).resolve().parent.parent
PINS = Path(__file__).with_name("baseline.toml")
TREES = ROOT / ".build" / "pins"
LIMIT = 1.10


class Row(Struct, frozen=True):
    """One figure of both versions, in its unit."""

    name: str
    unit: str
    commit: str
    pinned: list[float]
    present: list[float]

    @property
    def ratio(self) -> float:
        """The present over the pin, by the medians."""
        return statistics.median(self.present) / statistics.median(self.pinned)

    @property
    def is_slow(self) -> bool:
        return self.ratio > LIMIT

    def __str__(self) -> str:
        then, now = statistics.median(self.pinned), statistics.median(self.present)
        mark = f"  <- above {LIMIT:.2f}" if self.is_slow else ""
        return (
            f"{self.name:<14} {then:>9.2f} {now:>9.2f} {self.unit:<9}"
            f" {self.ratio:>5.2f}  {self.commit}{mark}"
        )


def main() -> int:
    options = _options()
    baseline = tomllib.loads(PINS.read_text(encoding="utf-8"))
    pins = baseline["pins"]
    wanted = options.only or list(pins)
    print(f"{'figure':<14} {'pinned':>9} {'present':>9} {'unit':<9} {'ratio':>5}  pin")
    rows = []
    for name in wanted:
        rows.append(_row(name, pins[name], options.rounds))
        print(rows[-1], flush=True)
    slow = [row.name for row in rows if row.is_slow]
    print(f"above the limit: {', '.join(slow) or 'none'}")
    return 1 if slow else 0


def _row(name: str, commit: str, rounds: int) -> Row:
    figure = FIGURES[name]
    trees = (_tree(commit), ROOT)
    for tree in trees:  # where bytecode is not written, one of them would compile at every start
        compileall.compile_dir(tree / "src", quiet=2)
    with ExitStack() as stack:
        node = stack.enter_context(
            nodes.standin(
                figure.devices, figure.processes, utilisation=71 if figure.processes else 0
            )
        )
        measures: list[Callable[[], float]] = []
        for tree in trees:
            home, book = (
                Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"andon-gate-{word}-")))
                for word in ("home", "book")
            )
            book.chmod(0o755)
            for folder in ("leases", "tickets", "cordons"):
                (book / folder).mkdir()
                (book / folder).chmod(0o1777)
            measures.append(figure.prepare(Version(tree, home, book, node)))
        found: tuple[list[float], list[float]] = ([], [])
        for measure in measures:
            measure()  # compiles and fills caches
        for turn in range(rounds):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                found[side].append(measures[side]())
    return Row(name, figure.unit, commit, *found)


def _tree(commit: str) -> Path:
    """The files of a commit, unpacked once."""
    place = TREES / commit
    if not place.exists():
        packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True)
        if packed.returncode != 0:
            raise SystemExit(f"the pinned commit {commit} cannot be read: fetch the whole history")
        draft = place.with_name(f"{commit}.part")
        shutil.rmtree(draft, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(draft, filter="data")
        draft.rename(place)
    return place


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gate", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each version")
    parser.add_argument("--only", type=_names, metavar="FIGURE,…", help=", ".join(FIGURES))
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no figure is called {', '.join(unknown)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
