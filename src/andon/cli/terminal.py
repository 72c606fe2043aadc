"""The terminal a command writes to: its width and colour, and how errors are printed."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from andon.cli.screen import in_color, is_terminal, size
from andon.cli.show.text import Text, harmless, painted, styled, without_commands, without_unicode
from andon.errors import AndonError

if TYPE_CHECKING:
    from andon.node.port import Node
    from andon.settings.resolution import Resolved

INTERRUPTED = 130  # the exit code after Ctrl-C


class Choices:
    """The options on the command line, before or after the command's name."""

    simulate: int | None = None
    replay: str | None = None
    color: str | None = None
    quiet: bool = False
    interval_seconds: float | None = None
    url: str | None = None
    token_file: str | None = None
    node_name: str | None = None  # of a hub
    ssh: tuple[str, ...] = ()  # hosts and groups, as they were typed
    hosts_file: str | None = None
    timeout: float | None = None  # of all hosts together
    width: int | None = None  # of the text, if it is not that of the terminal
    out: TextIO | None = None  # where the text goes, if not to standard output
    fresh: bool = False  # whether to read the devices directly, not from a server
    argv: tuple[str, ...] = ()  # the whole command line
    bare: bool = False  # `andon` without a command
    warned: bool = False  # the settings may be read twice; warnings are printed once
    node: "Node | None" = None  # that these choices mean, once it was looked for
    resolved: "Resolved | None" = None  # the settings, where they are read once for many hosts

    def __init__(self, **given: Any) -> None:
        self.overrides: dict[str, object] = {}  # settings set by a command's own options
        vars(self).update(given)

    def flags(self) -> dict[str, object]:
        """The settings that these options override."""
        names = ("simulate", "replay", "interval_seconds")
        given = {name: getattr(self, name) for name in names}
        given |= self.overrides
        found = {name: value for name, value in given.items() if value is not None}
        # Only one of the two is in force: as a flag it also beats the other's variable.
        if "simulate" in found:
            return {"replay": "", **found}
        return {"simulate": 0, **found} if "replay" in found else found

    def machine(self) -> dict[str, tuple[str, str]]:
        """The options that name another machine, by their parameter's name."""
        url = self.url or ""
        host = url if "://" in url else url.removeprefix("ssh:")
        named = {"ssh": ("--ssh", host)} if url.startswith("ssh:") else {"url": ("--url", url)}
        named["node_name"] = ("--node", self.node_name or "")
        named["token_file"] = ("--token-file", self.token_file or "")
        return {name: pair for name, pair in named.items() if pair[1]}


class Terminal(NamedTuple):
    """Where a command's text goes."""

    width: int
    height: int
    color: bool
    live: bool  # standard output is a terminal
    quiet: bool = False
    out: TextIO | None = None  # standard output, unless another is named
    choices: Choices | None = None  # of a machine, for commands that the text names

    @classmethod
    def of(cls, choices: Choices) -> "Terminal":
        width, height = size()
        width = choices.width or width
        out = choices.out or sys.stdout
        color = in_color(choices.color or "auto", out)
        return cls(width, height, color, is_terminal(out), choices.quiet, choices.out, choices)

    def show(self, text: str) -> None:
        """Print text that ends in a newline, without anything that moves the cursor."""
        self.show_data(for_machine(text, self.choices))

    def show_data(self, text: str) -> None:
        """Prints JSON or CSV, which may contain commands of others: they stay as they are."""
        write(self.out or sys.stdout, without_commands(text))

    def print(self, *lines: Text) -> None:
        self.show(painted(lines, self.color))

    def remark(self, text: str, style: str = "") -> None:
        """Prints a line that --quiet leaves out."""
        if not self.quiet:
            self.print(styled(text, style))

    def show_json(self, value: object) -> None:
        self.show_data(self.json_text(value))

    def json_text(self, value: object, plain: bool = False) -> str:
        """Returns JSON in one line for a program, indented for a person; `plain`: for a file."""
        from andon.model import wire  # most commands print none

        return wire.dumps(value, indented=self.live and not plain) + "\n"


def write(stream: TextIO, text: str) -> None:
    """Write and flush, in ASCII if the stream cannot encode Unicode.

    A failed write to standard output is an error; to standard error it is ignored.
    """
    try:
        text.encode(stream.encoding or "utf-8")
    except (LookupError, UnicodeEncodeError):
        text = without_unicode(text)
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        failed_write(stream, error)


def failed_write(stream: TextIO, error: OSError) -> None:
    """Raises the error of a failed write, if the stream is standard output."""
    _discard(stream)
    if stream is sys.stderr:
        return
    if isinstance(error, BrokenPipeError):
        raise error
    raise AndonError(f"standard output: {error.strerror or error}") from error


def _discard(stream: TextIO) -> None:
    """Discard the buffer, so that the interpreter does not fail again at exit."""
    with suppress(OSError, ValueError):  # no file below it, so nothing can fail
        place = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, place)
        os.close(nowhere)


def reopen_closed() -> None:
    """Open /dev/null for standard streams that are closed (`>&-`).

    In this order each gets its own descriptor back, which another file would take otherwise.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def notice(text: str, choices: Choices | None = None) -> None:
    """Print one line for the user on standard error."""
    if choices is None or not choices.quiet:
        write(sys.stderr, f"andon: {harmless(for_machine(text, choices))}\n")


def ask(question: str) -> str:
    """Asks a question; returns the first letter of the answer in lower case, empty at the end of
    the input."""
    write(sys.stderr, harmless(question))
    try:
        return sys.stdin.readline().strip().lower()[:1]
    except UnicodeDecodeError:  # typed in another encoding: no letter that is offered
        return ""


def for_machine(text: str, choices: Choices | None) -> str:
    """Returns the text with options in its commands that name the machine of these choices."""
    given = {} if choices is None else choices.machine()
    if not given or "andon " not in text:
        return text
    from andon.cli.hinted_commands import with_machine

    return with_machine(text, given)


def report(error: AndonError, choices: Choices | None = None) -> None:
    """Print an error: one line, further mistakes, and what to do."""
    colored = in_color((choices and choices.color) or "auto", sys.stderr)
    lines = [styled("andon: ", "bold red") + styled(for_machine(error.reason, choices))]
    mistakes = getattr(error, "mistakes", ())
    lines += [styled(f"  {mistake}") for mistake in mistakes if mistake != error.reason]
    if error.hint:
        lines.append(styled(f"hint: {for_machine(error.hint, choices)}", "dim"))
    write(sys.stderr, painted(lines, colored))


def guarded(call: Callable[[], int], choices: Choices | None = None) -> int:
    """Calls a command; returns its exit code. An error becomes one line and its code."""
    try:
        return call()
    except AndonError as error:
        report(error, choices)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        return 0
    except (
        AttributeError, ImportError, MemoryError, OSError, RuntimeError, UnicodeEncodeError,
    ) as error:  # fmt: skip
        # Limits and paths of the system: any access may be the first to meet them.
        from andon.cli.show.system_errors import system_error

        found = system_error(error)
        if found is None or sys.flags.dev_mode:
            raise
        report(found)
        return found.exit_code
