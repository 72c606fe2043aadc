"""Where state lies under XDG_STATE_HOME."""

from pathlib import Path

from andon.host.machine_id import node_key


def node_state(state: Path) -> Path:
    """This machine's folder in a state home, whether it exists or not."""
    return state / "andon" / "nodes" / node_key()


def made_node_state(state: Path) -> Path:
    """The same folder, made as andon makes it."""
    folder = node_state(state)
    for one in (folder.parent.parent, folder.parent, folder):
        one.mkdir(0o700, exist_ok=True, parents=True)
        one.chmod(0o700)
    return folder
