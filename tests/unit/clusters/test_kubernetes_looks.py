"""What a hub's rows and snapshots say about a node of Kubernetes."""

from msgspec.structs import replace

from andon.clusters.kubernetes.rules.looks import detailed, look_of
from andon.clusters.kubernetes.rules.rooms import Room
from andon.clusters.rules.idle import idle_seconds
from andon.fleet.rules.states import NodeRow, NodeState
from andon.history.rules.series import Bucket
from andon.model.device import DeviceStatus
from tests.support.rows import rows
from tests.support.snapshots import busy, farm, h200, work

GPU = "nvidia.com/gpu"
ROW = NodeRow("g1", NodeState.HEALTHY, 2.0, 8, 0, 31.0, 44.0, models={"H100": 8})


def held(place: int, *containers: str) -> DeviceStatus:
    found = tuple(replace(work(9, "bob", "python", 1.0), container=one) for one in containers)
    return replace(h200(place), processes=found)


def test_a_row_is_a_look() -> None:
    look = look_of(ROW)
    assert (look.age_seconds, look.utilization_percent, look.model) == (2.0, 31.0, "H100")
    assert look_of(replace(ROW, models={"A": 1, "B": 2})).model is None
    assert look_of(replace(ROW, state=NodeState.SICK, reason="GPU 2: hot")).trouble == "GPU 2: hot"


TEAM = Room("g1", {GPU: 8}, {}, holders={"team-a/notebook-7": 3, "b/train": 2},
            uids={"u1": "team-a/notebook-7", "u2": "b/train"})  # fmt: skip
WORKS = replace(busy(5, 80, 9.0), processes=held(5, "k8s:b/train/main").processes)


@rows(
    ("devices", "gpus", "pods"),
    [
        ([held(0), held(1), held(2), WORKS, WORKS], 3, ["team-a/notebook-7"]),
        ([held(0), held(1), held(2), held(3), WORKS], 4, ["team-a/notebook-7", "b/train"]),
        ([held(0, "k8s:team-a/notebook-7/c"), WORKS, WORKS], 1, ["team-a/notebook-7"]),
        ([held(0), replace(WORKS, processes=held(1, "k8s:u2/3f2a").processes), WORKS], 1,
         ["team-a/notebook-7"]),
        ([held(0), held(1), busy(2, 80, 9.0)], 2, []),
        ([held(0), held(1), replace(busy(2, 80, 9.0), pods=("b/train/main",))], 2,
         ["team-a/notebook-7", "b/train"]),
        ([busy(place, 80, 9.0) for place in range(5)], 0, []),
        ([held(0), WORKS, replace(WORKS, processes=held(1, "k8s:other/x/y").processes)], 1, []),
    ],
)  # fmt: skip
def test_who_asks_for_more_than_works_leaves_it_idle(
    devices: list[DeviceStatus], gpus: int, pods: list[str]
) -> None:
    look = detailed(look_of(ROW), replace(farm(), devices=tuple(devices)), {}, TEAM, 100.0)
    assert (look.idle_gpus, look.idle_seconds, list(look.idle_pods)) == (gpus, None, pods)
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
