"""Unpacks archives alike with every Python: 3.11.2 knows no filters, 3.14 wants one."""

import tarfile
from pathlib import Path
from typing import Literal


def unpack(
    archive: tarfile.TarFile, folder: Path, kind: Literal["data", "fully_trusted"] = "data"
) -> None:
    """`kind` is "data", or "fully_trusted" where owners and devices are to be kept."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter=kind)
    else:
        archive.extractall(folder)
