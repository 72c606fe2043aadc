"""Whatever lies in the lease book costs that entry and nothing else."""

from pathlib import Path

import pytest

from andon.model import lease_wire
from tests.fuzz import books
from tests.fuzz.chance import PARTS, SECONDS, SEED
from tests.fuzz.target import target

SHARE = SECONDS / PARTS


@pytest.mark.timeout(SHARE + 120)
def test_no_file_in_the_book_stops_a_lease_or_shows_a_secret(tmp_path: Path) -> None:
    with target(tmp_path / "books", "--no-history") as fuzzed:
        played = books.play(fuzzed, SEED, SHARE)
        fuzzed.check()
    assert played >= 5


def test_the_entries_that_are_mutated_are_valid_before() -> None:
    """Else every file would be refused for the same reason."""
    assert lease_wire.lease_from_json(books.LEASE).id == "hogxx"
    assert lease_wire.ticket_from_json(books.TICKET).id == "waitx"
    assert lease_wire.cordon_from_json(books.CORDON).uuid == "GPU-3"
