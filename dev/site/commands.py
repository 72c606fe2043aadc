"""The reference of the commands, made from the commands themselves: pages of the site, and man."""

import re
import textwrap
from collections.abc import Iterator
from inspect import cleandoc
from typing import NamedTuple

import click

from andon.cli.catalogue import COMMANDS, EXAMPLES, EXIT_CODES, JOBS, load
from andon.version import __version__


class Command(NamedTuple):
    """A command or subcommand, as people type it, and what `--help` has of it."""

    name: str
    usage: str
    about: str
    options: list[tuple[str, str]]
    epilog: str
    below: "list[Command]"


def described(command: click.Command, name: str) -> Command:
    """Reads a command and, of a group, its subcommands."""
    context = click.Context(command, info_name=f"andon {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    records = (one.get_help_record(context) for one in command.get_params(context))
    below = []
    if isinstance(command, click.Group):
        known = ((one, command.get_command(context, one)) for one in command.list_commands(context))
        below = [described(one, f"{name} {word}") for word, one in known if one and not one.hidden]
    return Command(
        f"andon {name}",
        f"andon {name} {usage}",
        _plain(command.help or ""),
        [(one[0], one[1]) for one in records if one],
        _plain(command.epilog or ""),
        below,
    )


def _plain(text: str) -> str:
    return cleandoc(text).replace("\b\n", "\b").partition("\f")[0].strip()


def every_command() -> dict[str, Command]:
    """Every command of the overview, by its name."""
    return {name: described(load(entry.target), name) for name, entry in COMMANDS.items()}


def command_pages() -> dict[str, str]:
    """A page for each command, and the overview, by their places in the site."""
    pages = {f"reference/commands/{n}.md": "".join(_page(c, 1)) for n, c in every_command().items()}
    return {"reference/commands/index.md": _overview(), **pages}


def _overview() -> str:
    lines = ["# Commands", "", "`andon --help`, and `--help` on every command, print the same.", ""]
    for job, question in JOBS.items():
        lines += [f"## {job}: {question}", "", "| command | |", "|---|---|"]
        rows = [(n, e.help) for n, e in COMMANDS.items() if e.job == job]
        lines += [f"| [andon {name}]({name}.md) | {_cell(words)} |" for name, words in rows] + [""]
    lines += ["## Examples", "", "| | |", "|---|---|"]
    lines += [f"| `{typed}` | {_cell(words)} |" for typed, words in EXAMPLES]
    return "\n".join(lines) + "\n"


def _page(command: Command, level: int) -> Iterator[str]:
    yield f"{'#' * level} {command.name}\n\n    {command.usage}\n\n"
    yield _paragraphs(command.about)
    if command.options:
        yield "| option | what it does |\n|---|---|\n"
        yield "".join(f"| `{_words(o)}` | {_cell(w)} |\n" for o, w in command.options) + "\n"
    yield _paragraphs(command.epilog)
    for one in command.below:
        yield from _page(one, level + 1)


def _paragraphs(text: str) -> str:
    """Paragraphs as Markdown; what `--help` does not wrap is a block."""
    parts = [part for part in text.split("\n\n") if part.strip()]
    made = [
        textwrap.indent(part.lstrip("\b"), "    ") if part.startswith("\b") else _escaped(part)
        for part in parts
    ]
    return "".join(f"{part}\n\n" for part in made)


def _escaped(text: str) -> str:
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<\[\]])", r"\\\1", p) for p in pieces)


def _words(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _words(text).replace("|", "&#124;").replace("<", "&lt;")


def man_pages() -> dict[str, str]:
    """`andon(1)` and a page for each command, by their file names."""
    commands = every_command()
    see = ", ".join(f"\\fBandon\\-{name}\\fR(1)" for name in sorted(commands))
    about = ".SH NAME\nandon \\- watches, explains, shares and records GPUs\n"
    about += ".SH SYNOPSIS\n.B andon\n[\\fIcommand\\fR] [\\fIoptions\\fR]\n"
    about += ".SH COMMANDS\n"
    about += "".join(
        f".TP\n\\fBandon {_roff(name)}\\fR\n{_roff(entry.help)}\n"
        for name, entry in COMMANDS.items()
    )
    about += ".SH EXAMPLES\n"
    about += "".join(f".TP\n\\fB{_roff(typed)}\\fR\n{_roff(words)}\n" for typed, words in EXAMPLES)
    about += ".SH EXIT STATUS\n"
    about += "".join(f".TP\n\\fB{code}\\fR\n{_roff(words)}\n" for code, words in EXIT_CODES)
    pages = {"andon.1": f"{_title('andon')}{about}.SH SEE ALSO\n{see}\n"}
    for name, command in commands.items():
        summary = _roff(COMMANDS[name].help.rstrip("."))
        head = f".SH NAME\nandon\\-{name} \\- {summary}\n"
        pages[f"andon-{name}.1"] = _title(f"andon-{name}") + head + "".join(_man(command, top=True))
    return pages


def _title(name: str) -> str:
    return f'.TH "{name.upper()}" "1" "" "andon {__version__}" "andon"\n'


def _man(command: Command, top: bool) -> Iterator[str]:
    if not top:
        yield f".SS \\fB{_roff(command.name)}\\fR\n"
    yield f"{'.SH SYNOPSIS' if top else '.PP'}\n\\fB{_roff(command.usage)}\\fR\n"
    if top:
        yield ".SH DESCRIPTION\n"
    yield from _man_paragraphs(command.about, first=top)
    if command.options:
        yield ".SH OPTIONS\n" if top else ""
        yield "".join(f".TP\n\\fB{_roff(o)}\\fR\n{_roff(w) or '.br'}\n" for o, w in command.options)
    if command.epilog and top:
        yield ".SH NOTES\n"
    yield from _man_paragraphs(command.epilog, first=top)
    if command.below:
        yield ".SH COMMANDS\n" if top else ""
    for one in command.below:
        yield from _man(one, top=False)


def _man_paragraphs(text: str, first: bool) -> Iterator[str]:
    for number, part in enumerate(one for one in text.split("\n\n") if one.strip()):
        yield "" if first and number == 0 else ".PP\n"
        if part.startswith("\b"):
            lines = part.lstrip("\b").splitlines()
            yield ".nf\n" + "".join(f"{_roff(line) or '.sp'}\n" for line in lines) + ".fi\n"
        else:
            yield f"{_roff(' '.join(part.split()))}\n"


def _roff(text: str) -> str:
    text = " ".join(text.split()) if "\n" in text else text
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text.strip())
