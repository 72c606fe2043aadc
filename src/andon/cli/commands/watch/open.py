"""`andon open`: signs a browser in with a one-time link."""

import html
import io
import os
import re
import sys
import webbrowser
from collections.abc import Callable
from urllib.parse import urlsplit

import click

from andon.access.gate import is_loopback
from andon.cli import browser_link
from andon.cli.options import chosen, shared
from andon.cli.terminal import Terminal, notice
from andon.errors import Unavailable
from andon.host.files import replace_file
from andon.host.state.node_folder import open_node_folder
from andon.node.server import base_url
from andon.settings.table import USUAL_PORT
from andon.units import counted

URL = f"http://127.0.0.1:{USUAL_PORT}"
PAGE = "open.html"
_CODE = re.compile(r"[A-Za-z0-9_-]{16,256}")


@click.command("open")
@click.option("--url", help=f"The server [default: the one you started here, or {URL}].")
@click.option("--token-file", metavar="FILE", help="Its token, if it is on another machine.")
@click.option(
    "--print", "only_print", is_flag=True, help="Print the link instead of opening a browser."
)
@click.option("--qr", is_flag=True, help="Show the link as a QR code too, for a phone.")
@click.option(
    "--at", "reached_at", metavar="URL", help="The address in the link: how the phone reaches it."
)
@click.option("--revoke", is_flag=True, help="End all your sessions instead.")
@click.option("--revoke-all", is_flag=True, help="End everyone's sessions (root, server's owner).")
@shared
def open_(
    url: str | None,
    token_file: str | None,
    only_print: bool,
    qr: bool,
    reached_at: str | None,
    revoke: bool,
    revoke_all: bool,
) -> int:
    """Open the server's page, signed in, or print the link if there is no browser.

    On the server's own machine you are signed in as yourself, whoever runs it. The link works
    once, within two minutes. Its code stays in the browser's tab: no proxy sees it, and no cookie
    is set. For a phone: andon open --qr --at https://gpus.example.org
    """

    def notify(text: str) -> None:
        notice(text, chosen())

    if revoke or revoke_all:
        ended = browser_link.revoke(url, token_file, revoke_all)
        notify(f"{counted(ended, 'session')} ended")
        return 0
    found = browser_link.sign_in_link(url, token_file, notify)
    base = found.url if reached_at is None else base_url(reached_at)
    link = f"{base}/#code={_code(found.code)}"
    if found.user is not None:
        notify(f"signed in as {found.user} with the server of {found.server_user}")
    if qr:
        _show_code(link, base, notify)
    if only_print or qr or reached_at is not None or not _opened(link):
        Terminal.of(chosen()).show(f"{link}\n")
        notice("open it within two minutes; it works once", chosen())
    return 0


def _show_code(link: str, base: str, notify: Callable[[str], None]) -> None:
    """Prints the link as a QR code; warns if a phone cannot reach the address."""
    host = urlsplit(base).hostname or ""
    if host == "localhost" or is_loopback(host):
        notify(
            f"a phone cannot reach {base}, which is this machine's alone: name an address that it "
            "can with --at URL (andon serve --host, or a proxy)"
        )
    text = qr_text(link, sys.stdout.encoding)
    if text is None:
        notify("this terminal cannot show a QR code; send yourself the link instead")
    else:
        Terminal.of(chosen()).show(text)


def qr_text(link: str, encoding: str | None) -> str | None:
    """The code in half blocks, light on dark; None where the terminal has no such characters."""
    try:
        import segno
    except ImportError as exc:
        hint = "pip install segno, or the extra andon[serve]; without it: andon open --print"
        raise Unavailable("QR codes need the package segno", hint=hint) from exc
    text = io.StringIO()
    segno.make(link, error="l", micro=False).terminal(text, border=2, compact=True)
    try:
        text.getvalue().encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return None
    return text.getvalue()


def _code(found: object) -> str:
    """The code of a link, checked because it is printed and opened."""
    if not isinstance(found, str) or not _CODE.fullmatch(found):
        hint = "check that it is an andon server"
        raise Unavailable("the server's answer contains no code", hint=hint)
    return found


def _opened(link: str) -> bool:
    """Opens the link through a file, because every user of a machine can read command lines."""
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return False

    path, target = open_node_folder() / PAGE, html.escape(link, quote=True)
    page = f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">\n'
    replace_file(path, page.encode())
    return webbrowser.open(path.as_uri())
