"""The state folder of this machine, separate from those of other machines that share the home."""

from pathlib import Path

from andon.errors import Denied
from andon.host.files import make_private
from andon.host.state.user_folder import (
    node_path,
    open_state_folder,
    refuse_anothers,
    refuse_foreign,
)


def node_folder() -> Path:
    """Returns the folder, not created."""
    path = node_path()
    refuse_anothers(path)
    return path


def open_node_folder() -> Path:
    """Returns the folder, created if necessary, accessible only to this user."""
    open_state_folder()
    path = node_path()
    try:
        make_private(path)
    except OSError as exc:
        raise Denied(
            f"{path} cannot be created: {exc.strerror}",
            hint=f"check the owner and the file system of {path.parent}",
        ) from exc
    refuse_foreign(path)
    return path
