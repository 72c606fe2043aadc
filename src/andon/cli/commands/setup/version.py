"""`andon version`: the version, as `andon --version` prints it."""

from platform import python_version

import click

from andon.cli.options import chosen, shared
from andon.cli.terminal import Terminal
from andon.version import __version__


@click.command()
@click.option(
    "--json", "as_json", is_flag=True, help="Print andon.version/1, with Python's version."
)
@shared
def version(as_json: bool) -> int:
    """Print the version of andon."""
    terminal = Terminal.of(chosen())
    if not as_json:
        terminal.show(f"andon {__version__}\n")
        return 0

    value = {"schema": "andon.version/1", "version": __version__, "python": python_version()}
    terminal.show_json(value)
    return 0
