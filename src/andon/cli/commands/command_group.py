"""A command with commands of its own, each imported only when it is called."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._known.items()])
