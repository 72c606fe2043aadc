"""The history of a host over SSH: what is shown together is asked for together, for all devices."""

from collections.abc import Sequence
from typing import Any

from andon.history.rules.usage import UsePeriod
from andon.node.ssh.client import SshHost
from andon.node.ssh.past import SshPast

DEVICES = [f"GPU-{number}" for number in range(8)]


class Recorded(SshHost):
    """A host with a history of some devices; it remembers each connection."""

    def __init__(self) -> None:
        super().__init__("lab1")
        self.asked: list[tuple[Sequence[str], ...]] = []

    def objects(self, *commands: Sequence[str]) -> list[Any]:
        self.asked.append(commands)
        return [{"usage": []} if "--who" in one else _said(one[3]) for one in commands]


def _said(metrics: str) -> dict[str, Any]:
    buckets = [{"since": 0.0, "until": 60.0, "count": 1, "min": 1.0, "mean": 2.0, "max": 3.0}]
    return {
        "series": [
            {"device": device, "metric": metric, "buckets": buckets}
            for device in DEVICES
            for metric in metrics.split(",")
        ]
    }


def test_what_each_user_used_of_many_devices_costs_as_many_connections_as_of_one() -> None:
    host, period = Recorded(), UsePeriod.of(0.0, 86_400.0)
    past = SshPast(host)
    past.usage(None, period.since, 86_400.0)
    read = [period.read(past, device) for device in DEVICES]
    assert all(len(one.used) == 3 and one.used[0][0].mean == 2.0 for one in read)
    assert len(host.asked) == 3, host.asked
