"""docs/coming-from.md: every andon command of the table exists and takes the options shown."""

import re
from importlib import import_module

import click
import pytest

from andon.cli.catalogue import COMMANDS
from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "coming-from.md").read_text(encoding="utf-8")
SHOWN = sorted(set(re.findall(r"`andon ([^`]+)`", PAGE)))


@pytest.mark.parametrize("line", SHOWN)
def test_what_the_page_types_can_be_typed(line: str) -> None:
    name, *words = line.split(" -- ")[0].split()
    module, _, attribute = COMMANDS[name].target.partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    known = {option for parameter in command.params for option in parameter.opts}
    assert [word for word in words if word.startswith("-") and word not in known] == []


def test_the_page_shows_most_of_the_commands() -> None:
    assert len({line.split()[0] for line in SHOWN}) >= 13
