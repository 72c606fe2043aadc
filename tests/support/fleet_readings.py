"""What a hub exports of four nodes: healthy, drained, silent and new; of one with its devices."""

from andon.exporter.spreads import FleetReadings, labels
from andon.fleet.rules.digest import FreeDevices
from andon.fleet.rules.states import NodeRow, NodeState
from tests.support.snapshots import farm

HEALTHY = NodeRow(
    "n17", NodeState.HEALTHY, 2.5, gpus=8, allocated=3, in_use=1, utilization_percent=62.5,
    memory_percent=40.0, temperature_celsius=84, simulated=True, alerts={"critical": 1, "odd": 2},
    free=(FreeDevices("H200", ("1", "4"), (140_000, 130_000)),),
)  # fmt: skip
DRAINED = NodeRow("n18", NodeState.SICK, 1.0, gpus=8, drained=True, free=HEALTHY.free)
SILENT = NodeRow("n19", NodeState.SILENT, 40.0, gpus=8, simulated=True)
NEW = NodeRow("n20", NodeState.NEW)
FLEET = FleetReadings(
    (HEALTHY, DRAINED, SILENT, NEW),
    {labels(node="n17", device=str(n), uuid=one.device.uuid): one
     for n, one in enumerate(farm().devices[:4])},
    {"nodes": 1, "gpus": 4},
)  # fmt: skip
