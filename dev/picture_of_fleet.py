"""A hub whose nodes report what is made up: `python -m dev.picture_of_fleet 500` plays so many until
Ctrl-C; with twelve for a picture."""

import itertools
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.board import link
from tests.integration.serving import Served, serving
from tests.support.homes import own_folders
from tests.support.played_fleet import recorded, reported
from tests.support.postgres import server

from andon.settings.store_url import parse_store_url
from andon.stores.postgres_kind import PostgresKind

REPORT_SECONDS, NODES = 3.0, 12


@contextmanager
def playing_fleet(nodes: int = NODES) -> Iterator[Served]:
    url = server().schema("fleet_pictures")
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        book = own_folders(state)["ANDON_LEASE_DIR"]
        options = {"ANDON_LEASE_DIR": book, "ANDON_NODE": "hub"}
        serve = serving(state, "--store", url, simulate=None, **options)
        with serve as hub, reporting(url, nodes):
            yield hub


@contextmanager
def reporting(url: str, nodes: int) -> Iterator[None]:
    """Reports every few seconds: a node that does not report is shown as silent."""
    ended, place = threading.Event(), parse_store_url(url)
    store, pasts = PostgresKind.open_nodes(place), PostgresKind.open_pasts(place)
    reported(store, nodes, 1)
    recorded(pasts, range(nodes))
    pasts.close()

    def go_on() -> None:
        for number in itertools.count(2):
            if ended.wait(REPORT_SECONDS):
                return
            reported(store, nodes, number)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        store.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt), playing_fleet(int(sys.argv[1])) as played:
        print(link(played), flush=True)
        threading.Event().wait()
