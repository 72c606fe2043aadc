"""The snapshots of top: which devices of them are shown."""

import pytest

from andon.errors import Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.model.device import Snapshot
from andon.tui.sources import feed as feed_module
from andon.tui.sources.feed import Feed, Tick
from tests.support.fake_node import FakeNode, FakeSession
from tests.support.notices import HOT
from tests.support.snapshots import office
from tests.support.waiting import wait_for


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


@pytest.mark.parametrize("url", ["http://node7", None])
def test_the_first_picture_has_the_alerts_of_the_server(url: str | None) -> None:
    """One that has fired for long does not begin when someone looks."""
    ticks, snapshot = list[Tick](), office()
    feed = Feed(FakeNode(snapshot, url=url, alerts=(HOT,)), Rulebook(), 1.0)
    feed.attach(ticks.append)
    feed._take(snapshot)
    assert (HOT in ticks[0].alerts) is (url is not None)


class Session(FakeSession):
    """A server's, which may go away."""

    def __init__(self, server: "Server") -> None:
        super().__init__((), False)
        self._server = server

    def get(self, timeout_seconds: float | None = None) -> Snapshot | None:
        if self._server.away:
            raise Unavailable("it does not answer")
        return super().get(timeout_seconds)


class Server(FakeNode):
    """The server that watches this machine."""

    def __init__(self) -> None:
        super().__init__(office(), url="http://here")
        self.away = False
        self.live.minutes = lambda: [office()]  # type: ignore[method-assign]
        self.live.subscribe = lambda *_, **__: Session(self)  # type: ignore[method-assign]


class Here(FakeNode):
    """This machine, which a server watches."""

    def __init__(self, server: Server) -> None:
        super().__init__(office())
        self.server, self.asked = server, 0

    def shared(self) -> FakeNode | None:
        self.asked += 1
        if self.server.away:
            raise Unavailable("it does not answer")
        return self.server


@pytest.mark.slow
def test_a_server_that_goes_away_is_replaced_by_own_readings_and_taken_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RETURN_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(feed_module, name, 0.01)
    node, ticks = Here(Server()), list[Tick]()
    feed = Feed(node, Rulebook(), 1.0)
    assert (feed.shown, feed.source, feed.remembered) == (node.server, "http://here", [office()])
    feed.attach(ticks.append)
    feed.start()
    node.server.away = True
    wait_for(lambda: feed.shown is node, 20)
    wait_for(lambda: any(tick.source == "" and tick.snapshot for tick in ticks), 20)
    assert any("reading the devices directly" in (tick.notice or "") for tick in ticks)
    before = node.asked
    wait_for(lambda: node.asked > before + 2, 20)
    assert feed.shown is node
    node.server.away = False
    wait_for(lambda: feed.shown is node.server, 20)
    feed.close()


@pytest.mark.slow
def test_a_named_server_that_goes_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "RETRY_SECONDS", 0.01)
    server, ticks = Server(), list[Tick]()
    server.away = True
    feed = Feed(server, Rulebook(), 1.0)
    feed.attach(ticks.append)
    feed.start()
    wait_for(lambda: ticks, 20)
    assert [tick.notice for tick in ticks] == ["it does not answer; retrying"], "said once"
    assert feed.shown is server
    feed.close()
