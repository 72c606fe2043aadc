"""The snapshots of top: which devices of them are shown."""

import pytest

from andon.explain.conditions.rulebook import Rulebook
from andon.tui.sources.feed import Feed, Tick
from tests.support.fake_node import FakeNode
from tests.support.snapshots import office


@pytest.mark.parametrize(
    ("names", "shown", "said"), [(["1"], 1, None), ([], None, None), (["77"], None, "77")]
)
def test_devices_named_before_the_first_reading_are_found_in_it(
    names: list[str], shown: int | None, said: str | None
) -> None:
    ticks, snapshot = list[Tick](), office()
    feed = Feed(FakeNode(snapshot, url="http://node7"), Rulebook(), 1.0)
    feed.attach(ticks.append)
    feed.names = names
    for _ in range(2):
        feed._take(snapshot)
    for tick in ticks:
        assert tick.snapshot is not None
        assert len(tick.snapshot.devices) == (shown or len(snapshot.devices))
    assert [said is not None and said in (tick.notice or "") for tick in ticks] == [
        said is not None, False,
    ]  # fmt: skip
