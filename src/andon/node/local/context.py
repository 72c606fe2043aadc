"""What the parts of this machine's node share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from andon.settings.resolution import Settings

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook
    from andon.model.device import Snapshot
    from andon.node.port import LocalParts
    from andon.node.remote import RemoteNode


class LocalContext(Struct, frozen=True):
    """What the parts of this machine's node share."""

    settings: Settings
    parts: "LocalParts"
    notify: Callable[[str], None]
    fresh: bool = False  # reads the devices, whatever a server knows
    own_thresholds: bool = False  # the caller's own, which no server uses
    leases_simulated: bool = False  # where simulated devices were asked for on the command line
    token_file: str | None = None

    @property
    def is_real(self) -> bool:
        return not self.settings.simulate and not self.settings.replay

    @property
    def root(self) -> Path:
        return Path(self.settings.root)

    @property
    def usual_thresholds(self) -> bool:
        given = self.settings
        own = given.alerts_figures or given.alerts_overrides or given.alerts_disabled_rules
        return not own

    @property
    def rulebook(self) -> "Rulebook":
        return self.parts.rulebook(self.settings)

    def watching_server(self) -> "RemoteNode | None":
        """Returns the trusted server that watches this machine's devices; None if none answers,
        or these devices are not the machine's."""
        from andon.node.usual_server import may_be_running

        if not self.is_real or not may_be_running():
            return None
        from andon.node.latest_snapshot import CommandLines

        return self.any_server(CommandLines(self.root))

    def any_server(
        self, completed: "Callable[[Snapshot], Snapshot]" = lambda snapshot: snapshot
    ) -> "RemoteNode | None":
        """Returns the trusted server of this machine, whatever devices it has. `completed` adds to
        its snapshots what this user may see and the server withholds."""
        from andon.node.remote import RemoteNode
        from andon.node.running import running_server

        server, book = running_server(self.token_file), lambda: self.rulebook
        return None if server is None else RemoteNode(server, book, self.notify, completed)
