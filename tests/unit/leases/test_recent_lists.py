"""Who reports leases every few seconds takes a list that others made, while nothing changed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.book.places import MODES, RESERVATIONS, VARIABLE
from andon.leases.network import NetworkLeases
from andon.leases.rules.verdict import in_use
from andon.model.device import DeviceStatus, Process, Snapshot, State
from tests.support.sharing_parts import gpu

IDLE, BUSY = gpu(0), gpu(0, busy=40, processes=[Process(7)])


class Node:
    """A node whose readings are set by a test, and how often its book was opened."""

    def __init__(self, folder: Path) -> None:
        self.now, self.broken, self.books = (
            Snapshot("n", 100.0, devices=(BUSY,)),
            dict[str, str](),
            0,
        )
        self.mark: object = None
        availability = Availability(lambda: self.now, broken=lambda: self.broken)
        env = {VARIABLE: str(folder / "book")}
        self.leases = NetworkLeases(
            availability, lambda: self.now, env, open_book=self._book, watched=lambda: self.mark
        )

    def at(self, at: float, device: DeviceStatus) -> float:
        """Returns of when the list is that a report gets."""
        self.now = Snapshot("n", at, devices=(device,))
        return self.leases.listed(10.0).at

    def _book(self, *arguments: Any, **named: Any) -> Book:
        self.books += 1
        return Book(*arguments, **named)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.leases.close()


def test_a_list_is_made_again_for_other_processes_devices_and_leases_and_in_time(
    node: Node,
) -> None:
    assert node.at(100.0, BUSY) == 100.0
    assert node.at(105.0, gpu(0, busy=90, processes=[Process(7)])) == 100.0
    assert node.leases.listed().at == 105.0, "everyone else gets the newest"
    assert node.at(114.9, BUSY) == 105.0
    assert node.at(115.1, BUSY) == 115.1, "too old"
    assert node.at(116.0, gpu(0, busy=90, processes=[Process(8)])) == 116.0
    node.broken = {"GPU-0": "reports Xid 79"}
    assert node.at(117.0, gpu(0, busy=90, processes=[Process(8)])) == 117.0
    node.leases.changed()
    assert node.at(118.0, gpu(0, busy=90, processes=[Process(8)])) == 118.0
    assert node.at(90.0, gpu(0, busy=90, processes=[Process(8)])) == 90.0, "the clock was set"


@pytest.mark.parametrize(
    ("other", "same"),
    [(gpu(0, used_gib=3), True), (gpu(0, busy=3), False), (gpu(0, state=State.LOST), False),
     (gpu(0, visible=False), False), (gpu(1), False), (BUSY, False)],
)  # fmt: skip
def test_what_counts_as_a_change(other: DeviceStatus, same: bool) -> None:
    assert (in_use([IDLE]) == in_use([other])) is same


def test_whoever_has_just_leased_finds_it_in_the_list(node: Node, tmp_path: Path) -> None:
    Book({VARIABLE: str(tmp_path / "book")})
    for part in (*MODES, RESERVATIONS):
        os.utime(tmp_path / "book" / part, (1.0, 1.0))
    for _ in range(2):
        node.leases.listed()
    assert node.books == 1, "nothing has changed"
    os.utime(tmp_path / "book/leases")
    node.leases.listed(10.0)
    assert node.books == 1, "who reports is told by the tracker"
    node.leases.listed()
    assert node.books == 2


def test_the_book_is_opened_again_when_another_is_there_or_nobody_watches_that(
    node: Node, tmp_path: Path
) -> None:
    Book({VARIABLE: str(tmp_path / "book")})
    for at in (1.0, 2.0):
        node.now = Snapshot("n", at, devices=(IDLE,))
        node.leases.listed()
    assert node.books == 2, "nobody watches"
    node.mark = object()
    for at in (3.0, 4.0, 5.0):
        node.now = Snapshot("n", at, devices=(IDLE,))
        node.leases.listed()
    assert node.books == 3
    node.mark = object()
    node.now = Snapshot("n", 6.0, devices=(IDLE,))
    node.leases.listed()
    assert node.books == 4
