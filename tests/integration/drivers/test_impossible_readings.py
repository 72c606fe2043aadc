"""A driver that reports what cannot be: nothing shows, keeps, scores or tells it."""

import json
import re

import pytest

from andon.model.device import State
from andon.sampling.sampler import Sampler
from tests.integration.conftest import andon
from tests.standin import StandIn, StandInProcess

ONES = 2**32 - 1
IMPOSSIBLE = (
    {"gpu_utilisation": ONES, "memory_utilisation": 255, "encoder": ONES, "decoder": 101},
    {"temperature": ONES, "memory_temperature": ONES, "power_mw": ONES, "enforced_limit_mw": ONES},
    {"sm_clock": ONES, "memory_clock": ONES, "pcie_gen": ONES, "pcie_width": ONES, "fan": ONES},
    {"used": 900_000_000_000},
    {"energy_mj": 2**63, "ecc_uncorrected": 2**63, "pstate": 77},
    {"processes": (StandInProcess(1, memory=2**63),), "max_sm_clock": ONES},
)


@pytest.mark.parametrize("changes", IMPOSSIBLE, ids=lambda changes: "-".join(changes))
def test_what_a_driver_cannot_mean_is_unknown_with_its_reason(
    node: StandIn, sampler: Sampler, changes: dict[str, object]
) -> None:
    before = sampler.once(expensive_fields=True).devices[3]
    node.change(3, **changes)
    sampler.close()
    status = andon("status", "--json").json()["devices"][3]
    assert status["state"] == State.OK
    reasons = [why for why in status["missing"].values() if "which is impossible" in why]
    assert reasons, status["missing"]
    assert before.sample is not None
    for name, value in status["sample"].items():
        if name.endswith("_percent") and value is not None:
            assert 0 <= value <= 100, name
        if name.endswith(("_bytes", "_celsius", "_watts", "_mhz")) and value is not None:
            assert 0 <= value <= 2**38, name
    shown = andon("status").out + andon("free").out + andon("status", "--csv").out
    shown = re.sub(r"reported [\d.]+", "", shown)  # that is the reason, and no reading
    for number in ("4294967", "900000000000", "1844674", "922337"):
        assert number not in shown, shown


def test_they_are_counted(node: StandIn, sampler: Sampler) -> None:
    node.change(0, gpu_utilisation=ONES, temperature=ONES)
    sampler.once()
    sampler.once()
    assert sampler.costs().impossible == 4
    text = json.dumps(andon("status", "--json").json())
    assert "4294967295 %, which is impossible" in text
