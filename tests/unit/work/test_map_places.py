"""The places of a map's workers: one lease each, as they become free."""

from types import SimpleNamespace
from typing import cast

from andon.errors import Conflict
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.placement import Placement
from andon.model.job.device_request import DeviceRequest
from andon.work.map.places import LeasedPlaces


def test_a_device_that_another_took_meanwhile_ends_no_map() -> None:
    """It looked free, and was not when it was to be taken."""

    def late(*_: object, **__: object) -> Placement:
        raise Conflict("1 GPU requested, 0 available")

    chosen = SimpleNamespace(choice=SimpleNamespace(chosen=["GPU-1"]))
    availability = cast("Availability", SimpleNamespace(offer=lambda *_: chosen))
    book = cast("Book", SimpleNamespace())
    found = LeasedPlaces(availability, DeviceRequest(), late, _most=8, _book=book)
    assert found.at_once([]) is None
