"""The alert rules on made-up hours, judged by promtool: each fires when it should, no other."""

import json
import subprocess
from pathlib import Path

import pytest
from dev.metrics.rules import alerts

from tests.conftest import need
from tests.integration.prometheus import RULES

HEALTHY = {
    "gpu_temperature_celsius": "71x60",
    "gpu_slowdown_temperature_celsius": "90x60",
    "gpu_memory_used_bytes": "10x60",
    "gpu_memory_total_bytes": "100x60",
    "gpu_power_watts": "698x60",
    "gpu_power_limit_watts": "700x60",
    'gpu_state,state="ok"': "1x60",
    'gpu_state,state="lost"': "0x60",
    'gpu_state,state="stale"': "0x60",
    'gpu_throttle,reason="sw_power_cap"': "1x60",
    'gpu_throttle,reason="hw_thermal_slowdown"': "0x60",
    "gpu_ecc_uncorrected_errors_total": "4x60",
    'source_failed,source="nvidia"': "0x60",
    "snapshot_age_seconds": "0.5x60",
}
"""A GPU that trains at its power limit: name and labels, and a value for each minute of an hour."""

CASES = {
    "healthy": ({}, set()),
    "full": ({"gpu_memory_used_bytes": "97x60"}, {"AndonGpuMemoryNearlyFull"}),
    "hot": ({"gpu_temperature_celsius": "86x60"}, {"AndonGpuHot"}),
    "hot for a moment": ({"gpu_temperature_celsius": "86 71x59"}, set()),
    "warm, and no limit known": (
        {"gpu_temperature_celsius": "86x60", "gpu_slowdown_temperature_celsius": "_x60"}, set()),
    "slowed down": (
        {'gpu_throttle,reason="hw_thermal_slowdown"': "1x60"}, {"AndonGpuThermalSlowdown"}),
    "lost": ({'gpu_state,state="lost"': "0x20 1x40"}, {"AndonGpuLost"}),
    "stale": ({'gpu_state,state="stale"': "0x20 1x40"}, {"AndonGpuStale"}),
    "memory errors": ({"gpu_ecc_uncorrected_errors_total": "4x20 5x40"}, {"AndonGpuEccErrors"}),
    "a driver that is gone": ({'source_failed,source="nvidia"': "1x60"}, {"AndonSourceFailed"}),
    "values that grow old": ({"snapshot_age_seconds": "0.5+60x60"}, {"AndonSnapshotOld"}),
}  # fmt: skip


def series(name: str) -> str:
    metric, _, labels = name.partition(",")
    return f'andon_{metric}{{instance="node17",device="0"{"," if labels else ""}{labels}}}'


def repeated(values: str) -> str:
    """`71x60` is 71 and sixty more of it, which promtool writes as 71+0x60."""
    parts = values.split()
    return " ".join(p if "+" in p or "x" not in p or p[0] == "_" else p.replace("x", "+0x")
                    for p in parts)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_rules_raise_what_they_should_and_nothing_else(name: str, tmp_path: Path) -> None:
    need("promtool")
    changed, raised = CASES[name]
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(raised)]
    case = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": [{"series": series(key), "values": repeated(values)}
                             for key, values in (HEALTHY | changed).items()],
            "promql_expr_test": [{
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "40m",
                "exp_samples": expected,
            }],
        }],
    }  # fmt: skip
    path = tmp_path / "case.yml"
    path.write_text(json.dumps(case))
    command = ["promtool", "test", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    assert {alert.name for alert in alerts()} == set().union(
        *(fired for _, fired in CASES.values())
    )
