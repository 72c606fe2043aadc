"""The places of a map's workers: one lease each, as they become free."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from andon.errors import Conflict
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.granter import LeaseTerms
from andon.model.lease import DeviceRequest
from andon.work.map import places
from andon.work.map.places import LeasedPlaces


def test_a_device_that_another_took_meanwhile_ends_no_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looked free, and was not when it was to be taken."""

    class Late:
        def __init__(self, *_: object) -> None:
            pass

        def grant(self, *_: object) -> Any:
            raise Conflict("1 GPU requested, 0 available")

    chosen = SimpleNamespace(choice=SimpleNamespace(chosen=["GPU-1"]))
    availability = cast("Availability", SimpleNamespace(offer=lambda *_: chosen))
    book = cast("Book", SimpleNamespace())
    monkeypatch.setattr(places, "Granter", Late)
    found = LeasedPlaces(availability, DeviceRequest(), LeaseTerms(), _most=8, _book=book)
    assert found.at_once([]) is None
