"""The far side of `--ssh`: runs the commands that a variable names, and prints what each of them
printed as a line of JSON."""

import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

from andon.errors import Invalid
from andon.model import wire
from andon.version import __version__

COMMAND = "asked"
"""`andon asked`: for an andon elsewhere, not for people."""
REQUEST_VARIABLE = "_ANDON_ASKED"
READING = frozenset(
    ("status", "leases", "alerts", "jobs", "devices", "history", "runs", "watch", "doctor")
)
MOST_BYTES = 1 << 20


def answer(run_command: Callable[[list[str]], int]) -> int:
    """Answers all questions; their failures are part of the answers."""
    os.environ.pop("ANDON_URL", None)  # this machine is asked
    try:
        request = wire.loads(os.environ.pop(REQUEST_VARIABLE, ""), wire.NOTE)
        follows = "follow" in request
        wanted = [*request.get("first", ()), request["follow"]] if follows else request["ask"]
        commands = [list(map(str, one)) for one in wanted]
        if any(not one or one[0] not in READING for one in commands):
            raise Invalid("only commands that read are answered")
    except (Invalid, AttributeError, KeyError, TypeError) as wrong:
        sys.stderr.write(f"andon: what was asked cannot be answered: {wrong}\n")
        return Invalid.exit_code
    sys.stdout.write(wire.struct_text({"andon": __version__}) + "\n")
    sys.stdout.flush()
    if follows:
        return [run_command(argv) for argv in commands][-1]
    for argv in commands:
        out, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            code = run_command(argv)
        error_text = wire.struct_text(errors.getvalue()[-MOST_BYTES:])
        sys.stdout.write(f'{{"code":{code},"said":{error_text},"out":{_joined(out.getvalue())}}}\n')
        sys.stdout.flush()
    return 0


def _joined(text: str) -> str:
    """Returns an object as it was printed, and several lines as a list."""
    lines = text.split("\n")[:-1]
    return lines[0] if len(lines) == 1 else f"[{','.join(lines)}]" if lines else "null"
