"""Unpacks archives alike with every Python: 3.11.2 knows no filters, 3.14 wants one."""

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path, kind: str = "data") -> None:
    """`kind` is "data", or "fully_trusted" where owners and devices are to be kept."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter=kind)
    else:
        archive.extractall(folder)
