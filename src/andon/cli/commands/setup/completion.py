"""`andon completion`: prints the shell completion script."""

import sys

import click
from click.shell_completion import get_completion_class

from andon.cli.main import COMPLETE, cli
from andon.cli.options import shared
from andon.cli.terminal import write

INSTALL = {
    "bash": 'add to ~/.bashrc:  eval "$(andon completion bash)"',
    "zsh": 'add to ~/.zshrc:  eval "$(andon completion zsh)"',
    "fish": "andon completion fish > ~/.config/fish/completions/andon.fish",
}


@click.command(epilog="\b\n" + "\n".join(f"{shell:<5} {line}" for shell, line in INSTALL.items()))
@click.argument("shell", type=click.Choice(list(INSTALL)))
@shared
def completion(shell: str) -> int:
    """Print the completion script for a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    write(sys.stdout, kind(cli, {}, "andon", COMPLETE).source() + "\n")
    return 0
