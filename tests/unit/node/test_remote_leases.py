"""What a server's list of leases says about its devices."""

from types import SimpleNamespace
from typing import Any

import pytest

from andon.errors import Unavailable
from andon.leases.rules.rows import EMPTY
from andon.model.codec import document
from andon.model.lease_list import LeaseList
from andon.node.remote.leases import RemoteLeases
from tests.support.snapshots import farm


def listed(note: str | None) -> RemoteLeases:
    """The leases of a server whose list has no devices."""
    found = document(LeaseList(1.0, note=note))
    live: Any = SimpleNamespace(server=SimpleNamespace(get=lambda path: found))
    return RemoteLeases(live)


def test_without_devices_none_is_free_and_that_nothing_is_leased_is_no_reason() -> None:
    assert list(listed(EMPTY).verdicts(farm())) == []
    with pytest.raises(Unavailable, match="n18 is silent"):
        listed("n18 is silent").verdicts(farm())
