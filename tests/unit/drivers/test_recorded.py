"""What real hardware said once must go on being read."""

import json
from pathlib import Path

import pytest

from andon.model import wire_in
from andon.model.device import SAMPLE_VALUES

FOLDER = Path(__file__).parents[2] / "recorded" / "nvidia"
RECORDED = sorted(p for p in FOLDER.glob("*.json") if not p.stem.endswith("-smi"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)
@pytest.mark.parametrize("scene", ["idle", "loaded"])
def test_a_recorded_card_still_reads_and_explains_every_gap(path: Path, scene: str) -> None:
    recording = json.loads(path.read_text(encoding="utf-8"))
    assert recording["made_by"]
    assert recording["date"]
    snapshot = wire_in.snapshot_from_json(recording["snapshot"][scene])
    assert snapshot.devices
    for status, said in zip(snapshot.devices, recording["snapshot"][scene]["devices"], strict=True):
        assert status.answered
        read = [name for name in SAMPLE_VALUES if name in said["sample"]]  # those of that version
        unknown = {name for name in read if getattr(status.sample, name) is None}
        assert unknown == set(status.missing) - {"processes"}


def test_an_h200_at_full_load_said_this() -> None:
    path = next(p for p in RECORDED if p.stem.startswith("h200"))
    (status,) = wire_in.snapshot_from_json(
        json.loads(path.read_text())["snapshot"]["loaded"]
    ).devices
    sample = status.sample
    assert sample is not None
    assert sample.utilization_percent == 100
    assert sample.throttle == ("sw_power_cap",)
    assert sample.power_watts is not None
    assert 600 < sample.power_watts <= 705
    assert sample.memory_reserved_bytes is not None
    assert status.processes[0].name is not None
