"""Where `andon` starts: the reader process starts first, while the rest is imported."""

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

SAMPLING_COMMANDS = frozenset(
    (
        "devices", "env", "free", "kill", "lease", "leases", "ps", "run", "status", "top", "wait",
        "watch", "who", "why",
    )
)  # fmt: skip
"""The commands that sample this node's devices; `andon` alone does too."""
LASTING_COMMANDS = frozenset(("lease", "run", "top", "wait", "watch"))
"""Their reader may live for days: it is a process with a command line of its own."""
TAKING_COMMANDS = frozenset(("env", "kill", "lease", "run", "wait", "watch"))
"""Those of them that read the devices themselves, whatever a server knows."""
_ELSEWHERE = ("--url", "--ssh", "--hosts-file", "--on", "--help", "-h", "--version")
_DECIDING = ("--config", "--simulate", "--replay")
COMPLETE = "_ANDON_COMPLETE"
INTERRUPTED = 130
FEWER_COLLECTIONS = 50_000  # new objects between two collections: imported modules are not garbage


def main() -> "NoReturn":
    """Run the command line and exit.

    Skips the interpreter's own cleanup: what must be closed is closed by then, and the rest would
    take longer than many commands.
    """
    gc.set_threshold(FEWER_COLLECTIONS)
    args = sys.argv[1:]
    try:
        code = _run(args)
    except KeyboardInterrupt:  # also during the imports
        code = INTERRUPTED
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    os._exit(code)


def _run(args: list[str]) -> int:
    if args == ["asked"]:
        from andon.cli.ssh.far_side import answer

        return answer(run_command)
    return run_command(args)


def run_command(args: list[str]) -> int:
    """Runs a command line; returns its exit code."""
    # If a standard stream is closed, a socket or a pipe would get its descriptor.
    if None not in (sys.stdin, sys.stdout, sys.stderr) and will_sample(args, os.environ):
        _start_reader(args)
    from andon.cli.main import run

    return run(args)


def _start_reader(args: "Sequence[str]") -> None:
    """Start a reader and let it open the driver, while the rest is imported."""
    if _may_be_answered(args):
        return
    from contextlib import suppress

    from andon.sampling.spawning import start_ahead

    start_ahead(fork=not LASTING_COMMANDS.intersection(args))
    if any(word.partition("=")[0] in _DECIDING for word in args):
        return
    from andon.app.sampler import open_ahead
    from andon.app.settings import load_settings
    from andon.errors import AndonError

    with suppress(AndonError):  # the command reports it
        open_ahead(load_settings({}).settings)


def _may_be_answered(args: "Sequence[str]") -> bool:
    """Whether a server may answer this command; then the reader starts only if it does not."""
    if TAKING_COMMANDS.intersection(args) or "--fresh" in args:
        return False
    from contextlib import suppress

    from andon.errors import Invalid
    from andon.node.usual_server import may_be_running

    with suppress(Invalid):  # the port of the environment is none, which the command reports
        return may_be_running()
    return False


def will_sample(args: "Sequence[str]", env: "Mapping[str, str]") -> bool:
    """Whether this node's devices will most likely be sampled; a wrong guess costs little."""
    own = list(args[: args.index("--")] if "--" in args else args)
    if any(word.partition("=")[0] in _ELSEWHERE for word in own) or env.get(COMPLETE):
        return False
    first = next((word for word in own if not word.startswith("-")), "0")
    if env.get("ANDON_URL") and first not in TAKING_COMMANDS:
        return False
    bare = first.isdecimal()  # `andon -d 0`
    if first == "why" and any(":" in word and word[:1].isalpha() for word in own):
        return False  # a job of a cluster
    return bare or (first in SAMPLING_COMMANDS and own[1:2] != ["extend"])
