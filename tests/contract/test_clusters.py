"""Every cluster keeps the contract; so far the fake, whose time the tests move."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from andon.ports import Cluster
from andon.settings.clusters import ClusterSettings
from andon.testing.cluster_contract import ClusterContract
from andon.testing.fake_cluster import FakeCluster, FakeForegroundCluster, PlayedNode

AT = 1_763_250_000.0


class TestFakeCluster(ClusterContract):
    kind: type[FakeCluster] = FakeCluster

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], Cluster]:
        nodes = (PlayedNode("n1", 2), PlayedNode("n2", 1))
        self._fake = FakeCluster.make(tmp_path, *nodes, now=AT)
        settings = ClusterSettings("fake", "fake", 0.05, {"folder": str(tmp_path)})
        return lambda: self.kind(settings)

    test_a_client_that_is_killed_loses_and_doubles_nothing = pytest.mark.process(
        ClusterContract.test_a_client_that_is_killed_loses_and_doubles_nothing
    )

    def pass_time(self, seconds: float) -> None:
        self._fake.advance(seconds)

    def away(self) -> AbstractContextManager[object]:
        return self._broken(away="connection refused")

    def slow(self) -> AbstractContextManager[object]:
        return self._broken(slow=60)

    @contextmanager
    def _broken(self, **fault: object) -> Iterator[None]:
        self._fake.break_(**fault)
        yield
        self._fake.break_()


@pytest.mark.process
class TestFakeForegroundCluster(TestFakeCluster):
    kind = FakeForegroundCluster
