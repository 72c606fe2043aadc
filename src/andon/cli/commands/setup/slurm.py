"""What `andon setup --slurm` prints or writes: a prolog, an epilog and lines for slurm.conf."""

import os
import re
import shlex
import shutil
from pathlib import Path

from andon.cli.show.text import styled
from andon.cli.terminal import Terminal
from andon.errors import Denied, Unavailable
from andon.host.files import replace_file
from andon.host.interpreter import process_command

USUAL_CONF = "/etc/slurm/slurm.conf"
PROLOG, EPILOG, LINES = "andon-prolog.sh", "andon-epilog.sh", "andon.conf"
LONGEST_SECONDS = 30
_DOES = {
    "prolog": "before it starts; a broken one drains the node and puts the job back",
    "epilog": "after it ended; a broken one drains the node",
}


def script(kind: str) -> str:
    """Returns the prolog or the epilog. It ends with 0 whatever happens: a prolog that fails would
    drain the node without a reason and hold the job."""
    tool = shutil.which("scontrol")
    folder = str(Path(tool).parent) if tool else "/usr/bin"
    command = process_command("slurm-node", kind, *(("check",) if kind == "prolog" else ()))
    return (
        "#!/bin/sh\n"
        f"# Made by `andon setup --slurm`: checks the GPUs of a job {_DOES[kind]}.\n"
        '[ -n "$SLURM_JOB_GPUS" ] || exit 0\n'
        f"[ -x {shlex.quote(command[0])} ] || exit 0\n"
        f"PATH=/usr/sbin:/usr/bin:/sbin:/bin:{shlex.quote(folder)}; export PATH\n"
        f"timeout -k 1 {LONGEST_SECONDS} {shlex.join(command)}\n"
        "exit 0\n"
    )


def conf_lines(folder: Path, present: str) -> tuple[list[str], list[str]]:
    """Returns the lines for slurm.conf, and what to do by hand where it has such lines already."""
    lines, by_hand = list[str](), list[str]()
    for name, file in (("Prolog", PROLOG), ("Epilog", EPILOG)):
        if (known := _value(name, present)) is None:
            lines.append(f"{name}={folder / file}")
        elif Path(known).name != file:
            by_hand.append(f"slurm.conf has {name}={known}: call {folder / file} in it, at its end")
    flags = _value("PrologFlags", present)
    if flags is None:
        lines.append("PrologFlags=Alloc")
    elif not re.search(r"\b(alloc|contain)\b", flags, re.IGNORECASE):
        by_hand.append(
            f"slurm.conf has PrologFlags={flags}: add Alloc, so that the prolog is early"
        )
    return lines, by_hand


def _value(name: str, text: str) -> str | None:
    found = re.search(rf"^\s*{name}\s*=\s*(\S+)", text, re.IGNORECASE | re.MULTILINE)
    return None if found is None else found[1]


def setup_slurm(terminal: Terminal, write: bool) -> int:
    """Prints all three, or writes them beside slurm.conf, which is never changed."""
    conf = Path(os.environ.get("SLURM_CONF") or USUAL_CONF)
    folder = conf.parent
    try:
        present = conf.read_text(errors="replace")
    except OSError:
        present = ""
    lines, by_hand = conf_lines(folder, present)
    files = {PROLOG: script("prolog"), EPILOG: script("epilog")}
    if not write:
        for name, text in files.items():
            terminal.show(f"# {folder / name}\n{text}\n")
        terminal.show(f"# {conf}\n" + "".join(f"{line}\n" for line in lines))
    else:
        for name, text in (files | {LINES: "".join(f"{line}\n" for line in lines)}).items():
            _write(folder / name, text, 0o644 if name == LINES else 0o755)
            terminal.print(styled(f"{folder / name} is written"))
        if lines:
            then = f"Include {folder / LINES}"
            terminal.print(
                styled(f"add to {conf} on every node: {then}; then: scontrol reconfigure")
            )
    for line in by_hand:
        terminal.print(styled(line, "yellow"))
    return 0


def _write(path: Path, text: str, mode: int) -> None:
    try:
        replace_file(path, text.encode(), mode)
    except PermissionError as exc:
        raise Denied(f"{path} cannot be written", hint="sudo andon setup --slurm --write") from exc
    except OSError as exc:
        raise Unavailable(f"{path}: {exc.strerror}", hint="set SLURM_CONF") from exc
