"""A command with commands of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from andon.cli.catalogue import LISTING, load


class SuggestingGroup(click.Group):
    """A group that suggests an existing command for one that it does not have."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, known = args[0] if args else "", self.list_commands(ctx)
        mistaken = word and word not in known and not word.startswith("-")
        if mistaken and not ctx.resilient_parsing:
            suggestion = _suggestion(word, known)
            near = "" if suggestion is None else f"; did you mean: {ctx.command_path}{suggestion}?"
            raise click.UsageError(f"unknown command {word!r}{near}", ctx)
        return super().resolve_command(ctx, args)


def _suggestion(word: str, known: Sequence[str]) -> str | None:
    """Returns a suggestion for the group: nothing, a command, or `show` and the argument."""
    from andon.cli.commands.suggestions import near_command

    if word in LISTING:
        return ""
    if (near := near_command(word, known, {})) is not None:
        return f" {near}"
    shown = "show" in known and (word == "@" or any(map(str.isdecimal, word)))
    return f" show {word}" if shown else None


class CommandGroup(SuggestingGroup):
    """A group whose commands are imported only when they are called.

    `commands` of a package: name → `module:attribute` in it, and its line in the overview.
    """

    def __init__(
        self, *args: Any, package: str, commands: Mapping[str, tuple[str, str]], **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self._package, self._known = package, commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._known:
            return None
        return load(f".{self._known[cmd_name][0]}", self._package)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._known.items()])
