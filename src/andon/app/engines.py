"""Opens this machine's container engine, by the setting and by what is installed."""

import shutil

from andon.app.settings import load_settings
from andon.errors import Unavailable
from andon.ports import ContainerEngine
from andon.registry import ENGINES, load

AUTO = "auto"


def open_engine(name: str | None = None) -> ContainerEngine:
    """Opens the named engine, or the setting's; by default Docker if installed, else Podman."""
    wanted = name or load_settings({}).settings.containers_engine
    names = tuple(ENGINES) if wanted == AUTO else (wanted,)
    found = next((name for name in names if shutil.which(name) is not None), None)
    if found is None:
        if wanted != AUTO:
            raise Unavailable(
                f"{wanted} is not installed here", hint="see the setting containers.engine"
            )
        raise Unavailable(
            "there is no container engine here: neither docker nor podman is installed",
            hint="install one, or run the command without --image",
        )
    engine: ContainerEngine = load(ENGINES, found)()
    return engine
