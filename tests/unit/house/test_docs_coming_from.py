"""docs/coming-from.md: every andon command of the table exists and takes the options shown."""

import re
from contextlib import suppress

import click

from andon.cli.catalogue import COMMANDS, load
from tests.conftest import REPOSITORY
from tests.support.rows import rows

PAGE = (REPOSITORY / "docs" / "coming-from.md").read_text(encoding="utf-8")
SHOWN = sorted(set(re.findall(r"`andon ([^`]+)`", PAGE)))


@rows("line", SHOWN)
def test_what_the_page_types_can_be_typed(line: str) -> None:
    """By the command's own parser, with simulated devices: options and their values are checked."""
    name, *words = line.split()
    command = load(COMMANDS[name].target)
    if words or name != "run":  # its name alone is no command line
        with suppress(click.exceptions.Exit):  # --help
            command.make_context(name, ["--simulate", "2", *words]).close()


def test_slack_is_set_up_by_the_command_that_sets_it_up() -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| be notified")]
    assert "`andon alerts notify add slack URL`" in row


def test_the_page_shows_most_of_the_commands() -> None:
    assert len({line.split()[0] for line in SHOWN}) >= 13
