"""`andon open`: signs a browser in with a one-time link."""

import html
import os
import re
import sys
from pathlib import Path

import click

from andon.cli.options import chosen, shared
from andon.cli.terminal import Terminal, notice
from andon.core.settings.usual_port import USUAL_PORT
from andon.errors import Unavailable

URL = f"http://127.0.0.1:{USUAL_PORT}"
PAGE = "open.html"
_CODE = re.compile(r"[A-Za-z0-9_-]{16,256}")


@click.command("open")
@click.option("--url", help=f"The server [default: the one you started here, or {URL}].")
@click.option("--token-file", metavar="FILE", help="Its token, if it is on another machine.")
@click.option(
    "--print", "only_print", is_flag=True, help="Print the link instead of opening a browser."
)
@click.option("--revoke", is_flag=True, help="End all your sessions instead.")
@click.option("--revoke-all", is_flag=True, help="End everyone's sessions (root, server's owner).")
@shared
def open_(
    url: str | None, token_file: str | None, only_print: bool, revoke: bool, revoke_all: bool
) -> int:
    """Open the server's page, signed in, or print the link if there is no browser.

    On the server's own machine you are signed in as yourself, whoever runs it. The link works
    once, within two minutes. Its code stays in the browser's tab: no proxy sees it, and no cookie
    is set.
    """
    from andon.cli import signing_in

    def notify(text: str) -> None:
        notice(text, chosen())

    if revoke or revoke_all:
        ended = signing_in.revoke(url, token_file, revoke_all)
        notify(f"{ended} session{'s' * (ended != 1)} ended")
        return 0
    found = signing_in.sign_in_link(url, token_file, notify)
    link = f"{found.url}/#code={_code(found.code)}"
    if found.user is not None:
        notify(f"signed in as {found.user} with the server of {found.server_user}")
    if only_print or not _opened(link):
        Terminal.of(chosen()).show(f"{link}\n")
        notice("open it within two minutes; it works once", chosen())
    return 0


def _code(found: object) -> str:
    """The code of a link, checked because it is printed and opened."""
    if not isinstance(found, str) or not _CODE.fullmatch(found):
        hint = "check that it is an andon server"
        raise Unavailable("the server's answer contains no code", hint=hint)
    return found


def _opened(link: str) -> bool:
    """Open it by way of a file, because every user of a machine can read command lines."""
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return False
    import webbrowser

    from andon.host.server.node_folder import open_node_folder

    path = open_node_folder() / PAGE
    _write(path, link)
    return webbrowser.open(path.as_uri())


def _write(path: Path, link: str) -> None:
    target = html.escape(link, quote=True)
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">\n')
