"""The versions of a vendor's loaded drivers, and of its library on disk.

The library is the one that a program started now would load; it is not loaded here.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from andon.host.files import read_text
from andon.model.device import DriverVersions
from andon.model.vendors import NVIDIA


def driver_versions(
    root: Path, own: Path = Path("/"), env: Mapping[str, str] = os.environ
) -> tuple[DriverVersions, ...]:
    """Returns the versions of the loaded drivers. Only NVIDIA's comes in parts that can differ.

    A sampler calls it between two samples, so it imports little and looks for no more files than
    the loader would.
    """
    modules = _modules(root)
    if NVIDIA.drivers[0] not in modules:
        return ()
    from andon.host.libraries import libraries
    from andon.host.rules.nvml_library import loaders_choice, version_of

    picked = loaders_choice(libraries(own, env))
    return (DriverVersions(NVIDIA.name, modules, version_of(picked) if picked else None),)


def _modules(root: Path) -> dict[str, str]:
    names = (*NVIDIA.drivers, *NVIDIA.companions)
    found = {name: read_text(root / "sys/module" / name / "version").strip() for name in names}
    return {name: version for name, version in found.items() if version}
