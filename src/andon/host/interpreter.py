"""How a Python process of our own is started: never with the current folder on its path."""

import os
import sys
from pathlib import Path


def module_command(module: str, *arguments: str) -> list[str]:
    """`python -m module`. Without -P, Python imports from the current folder first."""
    return [sys.executable, "-P", "-m", module, *arguments]


def script_command(script: Path, *arguments: str) -> list[str]:
    """A script that imports the standard library alone: no path but Python's own, no site."""
    return [sys.executable, "-I", "-S", str(script), *arguments]


def module_environment() -> dict[str, str]:
    """Ours, with the place that andon was imported from, last: it may be on no path of its own."""
    here = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{known}{os.pathsep}{here}" if known else here}
