"""A scripted Xid: told once, at its second, also by a device that is lost with it."""

import time
from collections.abc import Sequence

import pytest

from andon.drivers.sim.backend import Simulation
from andon.drivers.sim.rules.scenarios import parse_faults
from andon.errors import Gone, Invalid
from andon.model.event import Event


def test_an_xid_is_told_once_and_at_its_second() -> None:
    heard: list[Event] = []

    def take(events: Sequence[Event]) -> None:
        heard.extend(events)

    origin = time.time()
    simulation = Simulation(2, faults=["xid:1@5=79", "lost:1@5"], origin=origin)
    simulation.announce(take)
    cards = simulation.open()
    for seconds in (1.0, 4.9, 5.0, 6.0, 30.0):
        simulation.read(cards[0], origin + seconds, False)
        if seconds < 5:
            simulation.read(cards[1], origin + seconds, False)
        else:
            with pytest.raises(Gone):
                simulation.read(cards[1], origin + seconds, False)
    assert [(e.code, e.uuid, e.at - origin, e.source) for e in heard] == [
        (79, cards[1].key, 5.0, "sim")
    ]


def test_a_reader_that_was_opened_later_does_not_tell_it_again() -> None:
    heard: list[Event] = []
    simulation = Simulation(1, faults=["xid:0@5=79"], origin=time.time() - 60)
    simulation.announce(heard.extend)
    (card,) = simulation.open()
    simulation.read(card, time.time(), False)
    assert heard == []


@pytest.mark.parametrize("text", ["xid:0@5", "xid:0@5=0", "xid@5=79", "xid:0=79", "xid:0@5..9=79"])
def test_a_script_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="xid"):
        parse_faults([text])
