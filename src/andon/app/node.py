"""Which node is meant: this machine, a server, a host, simulated devices or a recording."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from andon import app
from andon.errors import Invalid
from andon.node.local import LocalNode
from andon.node.local.context import LocalContext
from andon.settings.resolution import Settings

if TYPE_CHECKING:
    from andon.node.port import Node

SERVER_THRESHOLDS = "a server uses its own settings: andon serve --threshold NAME=VALUE"


class NodeChoice(Struct, frozen=True):
    """What a command line says about the node."""

    url: str | None = None
    token_file: str | None = None
    simulate: int | None = None
    replay: str | None = None
    fresh: bool = False
    own_thresholds: bool = False
    ssh_seconds: float | None = None
    node: str | None = None


def find_node(
    choice: NodeChoice, settings: Settings, notify: Callable[[str], None] = lambda _: None
) -> "Node":
    """Returns the named server, else this machine with the devices that the settings name."""
    if choice.node is not None and (choice.url is None or choice.url.startswith("ssh:")):
        raise Invalid(
            "--node needs the URL of a hub", hint="--url https://HUB:26366, or set ANDON_URL"
        )
    if choice.url is None:
        return LocalNode(
            LocalContext(
                settings,
                app,
                notify,
                fresh=choice.fresh,
                own_thresholds=choice.own_thresholds,
                leases_simulated=choice.simulate is not None,
                token_file=choice.token_file,
            )
        )
    if choice.simulate or choice.replay:
        raise Invalid("--url cannot be combined with --simulate or --replay")
    if choice.fresh:
        raise Invalid("--url cannot be combined with --fresh", hint="the server reads its devices")
    if choice.own_thresholds:
        raise Invalid("--threshold and --url cannot be combined", hint=SERVER_THRESHOLDS)
    from andon.app.thresholds import rulebook

    if choice.url.startswith("ssh:"):
        from andon.node.ssh import SshNode
        from andon.node.ssh.client import TIMEOUT_SECONDS, SshHost

        host = SshHost(choice.url, settings.ssh_andon, choice.ssh_seconds or TIMEOUT_SECONDS)
        return SshNode(host, lambda: rulebook(settings), notify)
    from andon.node.remote import RemoteNode
    from andon.node.server import connect

    server = connect(choice.url, choice.token_file, notify)
    if choice.node is not None:
        server = server.of_node(choice.node)
    return RemoteNode(server, lambda: rulebook(settings), notify)
