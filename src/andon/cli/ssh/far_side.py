"""The far side of `--ssh` and of jobs on hosts: answers the questions of a variable, each in a line
of JSON."""

import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial

from andon.cli.ssh.far_desk import answer_call
from andon.errors import Invalid
from andon.model import wire
from andon.version import __version__

COMMAND = "asked"
"""`andon asked`: for an andon elsewhere, not for people."""
REQUEST_VARIABLE = "_ANDON_ASKED"
READING = frozenset(
    ("status", "leases", "alerts", "jobs", "devices", "history", "runs", "watch", "doctor")
)
ANSWERED = READING | {"check", "checks"}  # a check keeps free GPUs busy, and changes nothing
MOST_BYTES = 1 << 20


def answer(run_command: Callable[[list[str]], int]) -> int:
    """Answers all questions; their failures are part of the answers."""
    os.environ.pop("ANDON_URL", None)  # this machine is asked
    try:
        request = wire.loads(os.environ.pop(REQUEST_VARIABLE, ""), wire.NOTE)
        follows, wanted = "follow" in request, request.get("first", ())
        if (call := request.get("desk")) is None:
            wanted = [*wanted, request["follow"]] if follows else request["ask"]
        commands = [list(map(str, one)) for one in wanted]
        if any(not one or one[0] not in ANSWERED for one in commands):
            raise Invalid("only commands that change nothing are answered")
        questions = [partial(run_command, argv) for argv in commands]
        if call is not None:
            questions = [partial(answer_call, str(call), request["arguments"])]
    except (Invalid, AttributeError, KeyError, TypeError) as wrong:
        sys.stderr.write(f"andon: what was asked cannot be answered: {wrong}\n")
        return Invalid.exit_code
    sys.stdout.write(wire.struct_text({"andon": __version__}) + "\n")
    sys.stdout.flush()
    if follows:
        return [question() for question in questions][-1]
    for question in questions:
        out, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            code = question()
        error_text = wire.struct_text(errors.getvalue()[-MOST_BYTES:])
        sys.stdout.write(f'{{"code":{code},"said":{error_text},"out":{_joined(out.getvalue())}}}\n')
        sys.stdout.flush()
    return 0


def _joined(text: str) -> str:
    """Returns an object as it was printed, and several lines as a list."""
    lines = text.split("\n")[:-1]
    return lines[0] if len(lines) == 1 else f"[{','.join(lines)}]" if lines else "null"
