"""Commands that start andon's own Python processes, without the current folder on the path."""

import os
import sys
from pathlib import Path

from andon.host.files import expanded

_MODULE = "andon.process"


def process_command(name: str, *arguments: str) -> list[str]:
    """Returns the command of a process of `andon.process`. Without -P, Python would import from
    the current folder first."""
    return [sys.executable, "-P", "-m", _MODULE, name, *arguments]


def quick_process_command(name: str, *arguments: str) -> list[str]:
    """Returns the command of a process without site, which runs the start-up files of every
    installed package: on some machines they take longer than the rest. For a process that a
    person waits for."""
    return [sys.executable, "-P", "-S", "-m", _MODULE, name, *arguments]


def script_command(script: Path, *arguments: str) -> list[str]:
    """The command of a script that imports only the standard library: isolated, without site."""
    return [sys.executable, "-I", "-S", str(script), *arguments]


def code_command(code: str, *arguments: str) -> list[str]:
    """The command of a few lines that import only the standard library: isolated, without site."""
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


def own_python(script: Path) -> tuple[str, str]:
    """Returns our Python and a script of ours, for machines that share both."""
    return sys.executable, str(script)


def module_environment() -> dict[str, str]:
    """Our environment, with the folder that andon was imported from added at the end. Some of our
    processes work in other folders: the path of the configuration is made whole."""
    here, found = str(Path(__file__).parents[2]), dict(os.environ)
    if named := found.get("ANDON_CONFIG"):
        found["ANDON_CONFIG"] = str(expanded(named).absolute())
    known = found.get("PYTHONPATH")
    return {**found, "PYTHONPATH": f"{known}{os.pathsep}{here}" if known else here}


def quick_environment() -> dict[str, str]:
    """The environment for `quick_process_command`: names the folders that site would have found."""
    found = module_environment()
    installed = (one for one in sys.path if one.endswith(("site-packages", "dist-packages")))
    return {**found, "PYTHONPATH": os.pathsep.join((found["PYTHONPATH"], *installed))}
