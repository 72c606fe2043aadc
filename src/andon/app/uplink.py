"""The reports of this node to a hub."""

import logging
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from andon.access.gate import is_loopback
from andon.app.leases import labels_of
from andon.app.servers.reloading import SettingsInForce
from andon.errors import AndonError, Invalid
from andon.fleet.link import HubLink, no_token
from andon.fleet.rules.digest import Digest
from andon.fleet.sending import PastSender, note_trouble
from andon.fleet.uplink import Uplink, is_refused
from andon.host.files import read_regular, replace_file
from andon.host.machine_id import node_key
from andon.host.state.node_folder import open_node_folder
from andon.host.state.server_file import EVERYWHERE
from andon.host.state.user_folder import read_token
from andon.node.watched.node import WatchedNode
from andon.settings.resolution import Settings
from andon.web.listening import Listening, ServeOptions, url_of

log = logging.getLogger("andon.uplink")

TOKEN_FILE = "hub-token"  # noqa: S105 - its name
TOKEN_VARIABLE = "ANDON_HUB_TOKEN"  # noqa: S105
PIN_FILE, PIN_VARIABLE = "hub-pin", "ANDON_HUB_PIN"
_PIN = re.compile(r"sha256:[0-9a-f]{64}")


def hub_link(settings: Settings, url: str, waits: bool = False) -> HubLink:
    """Returns a link with this node's token, and the fingerprint of the hub's certificate where it
    has one of its own making. Those of the environment are kept for the next start unless the hub
    refuses them, which is no reason to end: the token may be added later, or replaced in its file,
    which is read again. Raises Denied where there is no token, unless it is waited for as well."""
    folder = open_node_folder()
    file = folder / TOKEN_FILE
    given = os.environ.get(TOKEN_VARIABLE, "").strip()
    pin = _pin(folder, new_token=bool(given))
    token = given or _renewed(file)
    if not (token or waits):
        raise no_token(url.split(",")[0])
    link = HubLink(url, token or "", pin=pin, unencrypted=settings.hub_unencrypted,
                   renew=partial(_renewed, file))  # fmt: skip
    if given and not is_refused(link):
        try:
            replace_file(file, given.encode() + b"\n")
            replace_file(folder / PIN_FILE, (pin or "").encode() + b"\n")
        except OSError as exc:  # such as a full disk: it reports all the same
            log.warning("the token of the hub is not kept for the next start: %s", exc.strerror)
    return link


def _renewed(file: Path) -> str | None:
    with suppress(AndonError):
        return read_token(file)
    return None


def _pin(folder: Path, new_token: bool) -> str | None:
    """Returns the fingerprint from the environment; else the one that came with the last token."""
    source, given = PIN_VARIABLE, os.environ.get(PIN_VARIABLE, "").strip()
    if not given and not new_token:
        source = str(folder / PIN_FILE)
        with suppress(OSError, AndonError):
            given = read_regular(Path(source)).decode("ascii", "replace").strip()
    if given and not _PIN.fullmatch(given):
        hint = f"set {PIN_VARIABLE} to sha256: and 64 digits, as andon nodes add prints it"
        raise Invalid(f"{source} is not a fingerprint", hint=hint)
    return given or None


def past(folder: Path, node: WatchedNode) -> Iterator[PastSender]:
    """Sends what the hub missed."""
    yield PastSender(folder, node)


def uplink(
    settings: Settings,
    link: HubLink,
    node: WatchedNode,
    past: PastSender,
    in_force: SettingsInForce,
    on_sent: Callable[[Digest], None] = lambda _: None,
    listening: Listening | None = None,
) -> Uplink:
    """Reports what the node reads, and what its store has packed."""
    trouble = partial(note_trouble, open_node_folder(), link.url)
    trouble(None)  # of an earlier process
    return Uplink(
        node, link, node_key(), on_sent, partial(past, link), on_trouble=trouble,
        metrics=partial(metrics_url, settings, listening),
        share_labels=lambda: labels_of(in_force.settings),
    )  # fmt: skip


def metrics_url(settings: Settings, listening: Listening | None) -> str | None:
    """Returns where others can read this machine's metrics: its server, or `andon exporter` at the
    address of the settings while something answers there."""
    if listening is not None and not listening.loopback:
        return listening.url
    host, port = settings.exporter_host, settings.exporter_port
    if is_loopback(host):
        return None
    with suppress(OSError), socket.create_connection((EVERYWHERE.get(host, host), port), 1.0):
        return url_of(ServeOptions(host, port), host, port)
    return None
