"""A hub whose nodes report what is made up: twelve for a picture, and with `python -m
dev.picture_of_fleet 500` so many until Ctrl-C."""

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.board import link
from tests.integration.serving import Served, serving
from tests.support.homes import own_folders
from tests.support.played_fleet import playing
from tests.support.postgres import server

NODES = 12


@contextmanager
def playing_fleet(nodes: int = NODES) -> Iterator[Served]:
    url = server().schema("fleet_pictures")
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        book = own_folders(state)["ANDON_LEASE_DIR"]
        options = {"ANDON_LEASE_DIR": book, "ANDON_NODE": "hub"}
        serve = serving(state, "--store", url, simulate=None, **options)
        with serve as hub, playing(url, nodes, nodes):
            yield hub


if __name__ == "__main__":
    with suppress(KeyboardInterrupt), playing_fleet(int(sys.argv[1])) as played:
        print(link(played), flush=True)
        threading.Event().wait()
