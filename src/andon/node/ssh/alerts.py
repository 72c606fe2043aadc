"""The alerts of a host over SSH."""

from andon.node.remote.alerts import RemoteAlerts


class SshAlerts(RemoteAlerts):
    """Alerts as `andon alerts` lists them there; nothing is said about them from here."""

    notifies = False

    def check_server(self) -> None:
        self.server.post("")
