"""`andon setup --system`: writes or removes the units of systemd, after saying what and asking."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import which

from andon.cli.show.text import styled
from andon.cli.terminal import Terminal, ask
from andon.errors import AndonError, Denied, Invalid, Unavailable
from andon.host.interpreter import TRY_SECONDS, interpreter
from andon.host.rules.system_files import FileChange, difference
from andon.host.system_files import (
    SYSUSERS,
    TMPFILES,
    UNITS,
    SystemFiles,
    safe_interpreter,
    sole_setup,
    wanted_files,
)
from andon.units import counted

RUNNING = Path("/run/systemd/system")  # exists where systemd is this machine's init
STARTING = (
    "the board, for all:  systemctl enable --now andon.socket andon.service",
    "or a hub's agent:    systemctl enable --now andon-agent   # first /etc/default/andon-agent",
    "or a hub:            systemctl enable --now andon-hub     # first /etc/default/andon-hub",
    "each user's jobs:    systemctl --user enable --now andon-dispatcher",
)
LONGEST_SECONDS = 120.0


def setup_system(terminal: Terminal, root: Path, *, yes: bool, dry_run: bool, remove: bool) -> bool:
    """Returns whether the files are as they should be; False if the person said no."""
    if not root.is_dir():
        raise Unavailable(f"there is no folder {root}")
    with sole_setup(root):
        return (_remove if remove else _write)(terminal, root, yes, dry_run)


def _write(terminal: Terminal, root: Path, yes: bool, dry_run: bool) -> bool:
    files = SystemFiles(root, wanted_files(interpreter()))
    for path, change in files.changes.items():
        terminal.print(styled(f"{path:<42} {change}"))
        if change is FileChange.EDITED:
            differs = difference(path, files.present[path] or "", files.wanted[path])
            terminal.print(*(styled(f"    {line}", "yellow") for line in differs))
    paths = files.to_write()
    if dry_run:
        for path in paths:
            terminal.show_data(f"\n{path}:\n{files.wanted[path]}")
        return True
    if paths and not _agreed(root, yes, f"write {counted(len(paths), 'file')}?"):
        return False
    safe_interpreter()
    _check_installed()
    for path in paths:
        files.write(path)
        terminal.print(styled(f"{path} is written"))
    if is_running(root):
        _call("systemd-sysusers", SYSUSERS)
        _call("systemd-tmpfiles", "--create", TMPFILES)
        _call("systemctl", "daemon-reload")
    for line in STARTING:
        terminal.remark(line, "dim")
    return True


def _remove(terminal: Terminal, root: Path, yes: bool, dry_run: bool) -> bool:
    files = SystemFiles(root, wanted_files(interpreter()))
    paths = files.to_remove()
    for path, text in files.present.items():
        if text is not None:
            what = "is removed" if path in paths else f"is {FileChange.EDITED}"
            terminal.print(styled(f"{path:<42} {what}"))
    if not paths:
        terminal.print(styled("there is nothing of andon setup to remove"))
    if dry_run or not paths:
        return True
    if not _agreed(root, yes, "end these services and remove the files?"):
        return False
    units = [name for name in UNITS if any(path.endswith(f"/{name}") for path in paths)]
    if units and is_running(root):
        _call("systemctl", "disable", "--now", *units)
    for path in paths:
        files.remove(path)
    if is_running(root):
        _call("systemctl", "daemon-reload")
    terminal.remark("leases, jobs, history and settings are as they were")
    return True


def _agreed(root: Path, yes: bool, question: str) -> bool:
    """Whether the files may be changed: --yes, or a person who says so."""
    if root == Path("/") and os.geteuid() != 0:
        raise Denied("only root can do that", hint="sudo andon setup --system; see: --dry-run")
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Invalid("nobody can be asked here", hint="--yes does it, --dry-run only shows it")
    return ask(f"{question} [y/N] ") == "y"


def is_running(root: Path) -> bool:
    return root == Path("/") and RUNNING.is_dir()


def _check_installed() -> None:
    """Refuses an andon that is only found by a variable of this shell: a unit has none."""
    try:
        subprocess.run(
            [interpreter(), "-P", "-c", "import andon.cli.main"], env={}, cwd="/", check=True,
            capture_output=True, timeout=TRY_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as exc:
        raise Unavailable(
            f"{interpreter()} does not find andon without this shell's variables",
            hint="install it for root, such as in /opt/andon",
        ) from exc


def _call(name: str, *arguments: str) -> None:
    """Runs a tool of systemd, whose failure is shown in its own words."""
    tool = which(name)
    if tool is None:
        raise Unavailable(f"{name} was not found", hint="install systemd")
    try:
        done = subprocess.run(
            [tool, *arguments], capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as exc:
        raise AndonError(f"{name} failed: {exc}") from exc
    if done.returncode:
        reason = (done.stderr.strip() or f"exit code {done.returncode}")[:500]
        raise AndonError(f"{name} failed: {reason}")
