"""The entry point: finds the command, and turns errors into one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from andon.cli.catalogue import (
    ALIASES,
    COMMANDS,
    EXAMPLES,
    EXIT_CODES,
    JOBS,
    LISTED,
    LISTING,
    SHORT_FORMS,
    SYNONYMS,
    load,
)
from andon.cli.options import shared
from andon.cli.terminal import INTERRUPTED, Choices, guarded, reopen_closed, report, write
from andon.errors import AndonError, Invalid
from andon.version import __version__

if TYPE_CHECKING:
    from andon.node.port import Node

BARE = "status"  # what `andon` without a command is
HELP = "help"
COMPLETE = "_ANDON_COMPLETE"
_ABOUT = frozenset(("-h", "--help", "--version"))  # about andon itself, not about a command


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        if entry is None:
            return None
        return load(entry.target)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not _is_command(args[0]) and not args[0].startswith("-"):
            from andon.cli.commands.suggestions import near_command

            near = near_command(args[0], COMMANDS, SYNONYMS)
            suggestion = f"; did you mean: andon {near}?" if near else ""
            raise click.UsageError(f"unknown command {args[0]!r}{suggestion}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands first: they matter most."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for job, question in JOBS.items():
            rows = [(n.ljust(widest), p.help) for n, p in COMMANDS.items() if p.job == job]
            if rows:
                with formatter.section(f"{job} – {question}"):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write_dl(list(EXAMPLES), col_max=40)
        with formatter.section("Exit codes"):
            text = ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES)
            formatter.write_text(text)


def _is_command(word: str) -> bool:
    return word in COMMANDS or word in ALIASES


def named(args: Sequence[str]) -> list[str]:
    """The arguments with their command: without one, options and devices are those of status.

    `andon help run` is `andon run --help`, `andon runs list` is `andon runs`.
    """
    begins = args[0] if args else "-"
    if begins == HELP:
        return [*args[1:], "--help"]
    if begins in SHORT_FORMS:
        return [*SHORT_FORMS[begins], *args[1:]]
    if begins in LISTED and len(args) > 1 and args[1] in LISTING:
        return [begins, *args[2:]]
    bare = begins.startswith("-") or begins.isdecimal()
    if not bare or any(map(_is_command, args)) or _ABOUT.intersection(args):
        return list(args)
    return [BARE, *args]


def _version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        write(sys.stdout, f"andon {__version__}\n")
        context.exit()


@click.group(
    cls=LazyGroup,
    no_args_is_help=False,
    subcommand_metavar="[COMMAND] [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version,
    help="Print the version.",
)
@shared
def cli() -> None:
    """andon watches, explains, shares and records GPUs.

    Without a command it prints the status, with the options of andon status. Every command takes
    --help, and the options below before or after its name.
    """


def run(args: Sequence[str], node: "Node | None" = None) -> int:
    """Run the command line; returns the exit code. It asks this node, if one is given, whatever its
    options say."""
    reopen_closed()
    choices = Choices(node=node)
    return guarded(lambda: _parsed(args, choices), choices)


def _parsed(args: Sequence[str], choices: Choices) -> int:
    try:
        return _called(args, choices)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as mistake:
        report(_usage(mistake, args))
        return mistake.exit_code
    except click.Abort:
        return INTERRUPTED


def _called(args: Sequence[str], choices: Choices) -> int:
    if COMPLETE in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "andon", COMPLETE, os.environ[COMPLETE])
    argv = named(args)
    choices.argv = tuple(args)
    choices.bare = bool(argv) and argv[0] == BARE and len(argv) > len(args)
    with cli.make_context("andon", argv, obj=choices) as context:
        result = cli.invoke(context)
    return result if isinstance(result, int) else 0


def _usage(mistake: click.ClickException, args: Sequence[str]) -> AndonError:
    from andon.cli.commands.suggestions import MACHINE_OPTIONS, mistake_text, near_options

    cause = mistake.__cause__ if mistake.__cause__ is not None else mistake
    unknown = cause if isinstance(cause, click.NoSuchOption) else None
    if unknown and unknown.option_name in MACHINE_OPTIONS and not near_options(unknown):
        from andon.cli.ssh.hosts import not_over_ssh

        return not_over_ssh(args)
    context = getattr(mistake, "ctx", None)
    where = context.command_path if context else _command_path(named(args))
    return Invalid(mistake_text(mistake), hint=f"{where} --help")


def _command_path(argv: Sequence[str]) -> str:
    """Returns the path of the called command: a usage error does not contain it."""
    command: click.Command = cli
    path, outer = "andon", click.Context(cli)
    for word in argv:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(outer, word)
        if found is not None:
            command, path = found, f"{path} {word}"
    return path
