"""The options and the output that all reports share: a form, a file, prices."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from andon.cli.options import F, chosen, with_options
from andon.cli.show.text import painted
from andon.cli.terminal import Terminal, notice
from andon.settings.resolution import Settings
from andon.version import __version__

if TYPE_CHECKING:  # a command that prints no report needs none of it
    from andon.cli.show.reports.document import Document
    from andon.runs.rules.reports.report import Prices

_FORMAT_FLAGS = "andon.forms"  # in a context: the flags that stand for --format
FORMS = ("text", "md", "html", "json", "csv")


def format_option(
    help: str,  # noqa: A002 - click's word
    default: str | None = None,
    *,
    as_json: str = "The same as --format json.",
    as_csv: str = "The same as --format csv.",
) -> Callable[[F], F]:
    """Adds --format and --out, as `form` and `out`, and --json and --csv for two of the forms."""

    def add(command: F) -> F:
        to_file = click.option(
            "--out",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Write to FILE instead.",
        )
        form = click.option(
            "--format",
            "form",
            type=click.Choice(FORMS),
            default=default,
            show_default=default is not None,
            metavar="FORM",
            help=help,
            callback=_form,
        )
        return with_options(command, _flag("json", as_json), _flag("csv", as_csv), form, to_file)

    return add


def _flag(form: str, about: str) -> Callable[[F], F]:
    """Returns a flag that stands for --format."""

    def remember(context: click.Context, parameter: click.Parameter, given: bool) -> None:
        if given:
            context.meta.setdefault(_FORMAT_FLAGS, []).append(form)

    return click.option(
        f"--{form}", is_flag=True, is_eager=True, expose_value=False, callback=remember, help=about
    )


def _form(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    named = context.get_parameter_source("form") is ParameterSource.COMMANDLINE
    forms = {*context.meta.get(_FORMAT_FLAGS, ()), *([value] if named else ())}
    if len(forms) > 1:
        raise click.UsageError(f"only one form at a time: {' or '.join(sorted(forms))}")
    return next(iter(forms), value)


def as_document(document: "Document", form: str, terminal: Terminal, plain: bool = False) -> str:
    """A document as text, Markdown or HTML; `plain`: for a file, without colours."""
    if form == "html":
        from andon.cli.show.reports.as_html import document_html

        return document_html(document, f"andon {__version__}")
    if form == "md":
        from andon.cli.show.reports.as_markdown import document_markdown

        return document_markdown(document)
    from andon.cli.show.reports.as_text import document_text

    return painted(document_text(document, terminal.width), terminal.color and (not plain))


def deliver(text: str, form: str, out: Path | None, terminal: Terminal) -> None:
    """Prints it, or writes the file whole or not at all."""
    if out is None:
        (terminal.show_data if form in ("json", "csv") else terminal.show)(text)
        return
    from andon.cli.outfile import replacing  # most reports are printed

    with replacing(out) as draft:
        draft.write_text(text, encoding="utf-8")
    notice(f"{out}: written", chosen())


def prices_of(settings: Settings) -> "Prices":
    """Returns the prices in the settings; 0 there means that no price is known."""
    from andon.runs.rules.reports.report import Prices

    return Prices(
        settings.runs_price_per_kwh or None,
        settings.runs_currency,
        settings.runs_co2_grams_per_kwh or None,
    )
