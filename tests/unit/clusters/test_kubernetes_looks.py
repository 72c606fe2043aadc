"""What a hub's rows and snapshots say about a node of Kubernetes."""

from msgspec.structs import replace

from andon.clusters.kubernetes.rules.looks import detailed, idle_devices, idle_seconds, look_of
from andon.fleet.rules.states import NodeRow, NodeState
from andon.history.rules.series import Bucket
from andon.model.device import DeviceStatus
from tests.support.rows import rows
from tests.support.snapshots import busy, farm, h200, work

ROW = NodeRow("g1", NodeState.HEALTHY, 2.0, 8, 0, 31.0, 44.0, models={"H100": 8})


def held(place: int, *containers: str) -> DeviceStatus:
    found = tuple(replace(work(9, "bob", "python", 1.0), container=one) for one in containers)
    return replace(h200(place), processes=found)


def test_a_row_is_a_look() -> None:
    look = look_of(ROW)
    assert (look.age_seconds, look.utilization_percent, look.model) == (2.0, 31.0, "H100")
    assert look_of(replace(ROW, models={"A": 1, "B": 2})).model is None
    assert look_of(replace(ROW, state=NodeState.SICK, reason="GPU 2: hot")).trouble == "GPU 2: hot"


def test_idle_is_what_a_pod_holds_and_on_which_nothing_runs() -> None:
    pod, other = "k8s:team-a/notebook-7/main", "docker:x"
    devices = (held(0, pod), held(1, other), held(2), busy(3, 80, 9.0), held(4, pod, "k8s:b/c/d"))
    snapshot = replace(farm(), devices=devices)
    assert [one.device.index for one in idle_devices(snapshot)] == [0, 4]
    look = detailed(look_of(ROW), snapshot, {}, 100.0)
    assert (look.idle_gpus, look.idle_seconds) == (2, None)
    assert look.idle_pods == ("team-a/notebook-7", "b/c")
    assert look.temperature_celsius is not None


@rows(
    ("buckets", "seconds"),
    [
        ([], None),
        ([Bucket(0, 10)], None),
        ([Bucket(0, 10, 5, 0, 0, 0)], 100.0),
        ([Bucket(0, 10, 5, 0, 5, 50), Bucket(10, 90, 5, 0, 0, 0)], 90.0),
        ([Bucket(0, 10, 5, 0, 5, 50), Bucket(10, 200, 5, 0, 1, 3)], 0.0),
    ],
)
def test_idle_since_the_last_work(buckets: list[Bucket], seconds: float | None) -> None:
    assert idle_seconds(buckets, 100.0) == seconds
