"""Two kinds of cluster of another package: one is followed, one works at the terminal."""

from andon.testing.fake_cluster import FakeCluster, FakeForegroundCluster


class CountingHouse(FakeCluster):
    """Implements andon.ports.Cluster."""


class CountingDesk(FakeForegroundCluster):
    """Implements andon.ports.Foreground and Previewing as well: its `able` says so."""
