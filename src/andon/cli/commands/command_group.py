"""A command with commands of its own, each imported only when it is called."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

LISTING = ("list", "ls")  # what a group does without a command


class CommandGroup(click.Group):
    """`commands` of a package: name → `module:attribute` in it, and its line in the overview."""

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
        module, _, attribute = self._known[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(f"{self._package}.{module}"), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0] if args else ""
        if word and word not in self._known and not word.startswith("-"):
            meant = self._meant(word)
            near = "" if meant is None else f"; did you mean: {ctx.command_path}{meant}?"
            raise click.UsageError(f"unknown command {word!r}{near}", ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, word: str) -> str | None:
        """What to add to the group's name; `show` for the name of one of those in its list."""
        from andon.cli.commands.suggestions import near_command

        if word in LISTING:
            return ""
        if (near := near_command(word, self._known, {})) is not None:
            return f" {near}"
        shown = "show" in self._known and (word == "@" or any(map(str.isdecimal, word)))
        return f" show {word}" if shown else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._known.items()])
