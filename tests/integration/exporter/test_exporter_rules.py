"""The rules for Prometheus, judged by promtool: by the timelines of the alerts, and andon's own."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from dev.metrics.rules import alerts, of_andon

from andon.explain.conditions.catalogue import RULES as CONDITIONS
from tests.conftest import need
from tests.integration.prometheus import RULES
from tests.timelines.grammar import timelines
from tests.timelines.series import MOST_LOOKS, together, why_not

NAMES = frozenset(re.findall(r"\bandon_\w+", RULES.read_text(encoding="utf-8")))
QUERIES = {rule.name: rule.promql for rule in CONDITIONS if not isinstance(rule.promql, str)}
SAID = [one for one in timelines() if why_not(one, QUERIES, MOST_LOOKS) is None]
PLAYED = [one for one in SAID if why_not(one, QUERIES) is None]

OWN: dict[str, tuple[dict[str, str], set[str]]] = {
    "healthy": ({}, set()),
    "a driver that is gone": ({'source_failed{source="nvidia"}': "1+0x60"}, {"AndonSourceFailed"}),
    "values that grow old": ({"snapshot_age_seconds": "0.5+60x60"}, {"AndonSnapshotOld"}),
    "a node that is silent, and one that is drained": (
        {
            'hub_node_state{node="n17",state="silent"}': "0+0x5 1+0x60",
            'hub_node_state{node="n18",state="silent"}': "1+0x60",
            'hub_node_drained{node="n17"}': "0+0x60",
            'hub_node_drained{node="n18"}': "1+0x60",
        },
        {"AndonNodeSilent"},
    ),
    "memory errors": ({"gpu_ecc_uncorrected_errors_total": "4+0x20 5+0x40"}, {"AndonEcc"}),
    "memory errors of before": ({"gpu_ecc_uncorrected_errors_total": "4+0x60"}, set()),
}
HEALTHY = {
    'source_failed{source="nvidia"}': "0+0x60",
    "snapshot_age_seconds": "0.5+0x60",
    "gpu_ecc_uncorrected_errors_total": "0+0x60",
}


def judge(tests: list[dict[str, Any]], interval: str, folder: Path) -> str:
    """What promtool finds wrong."""
    case = {"rule_files": [str(RULES)], "evaluation_interval": interval, "tests": tests}
    path = folder / "case.yml"
    path.write_text(json.dumps(case))
    command = ["promtool", "test", "rules", str(path)]
    env = {**os.environ, "GOGC": "400"}  # it collects its garbage less often
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    return (done.stdout + done.stderr)[:4000] if done.returncode else ""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("every", sorted({timeline.every for timeline in PLAYED}))
def test_prometheus_fires_where_the_timelines_say(every: float, tmp_path: Path) -> None:
    """All of one interval at once; what fails is named with its timeline, as the instance."""
    need("promtool")
    played = [one for one in PLAYED if one.every == every]
    assert judge([together(played, NAMES, QUERIES)], f"{every:g}s", tmp_path) == ""


def test_every_rule_of_the_file_is_played() -> None:
    """What is left out is long, or cannot be said; `why_not` knows the reason."""
    played = {word.partition("@")[0] for one in SAID for row in one.rows
              for item in row.expect.split(";") if " firing " in item
              for word in item.split()[:1]}  # fmt: skip
    assert set(QUERIES) <= played
    assert len({one.name for one in SAID}) == len(SAID), "each is an instance of its own"
    assert len(SAID) >= 60


def test_what_only_prometheus_sees_is_raised_when_it_should(tmp_path: Path) -> None:
    need("promtool")
    cases = {name: own_case(*case) for name, case in OWN.items()}
    if judge([*cases.values()], "1m", tmp_path):  # now one by one, to name what is wrong
        wrong = {name: judge([case], "1m", tmp_path) for name, case in cases.items()}
        pytest.fail("\n".join(f"{name}: {said}" for name, said in wrong.items() if said))


def own_case(changed: dict[str, str], raised: set[str]) -> dict[str, Any]:
    series = [
        {"series": "andon_" + (key if "{" in key else f'{key}{{device="0"}}'), "values": values}
        for key, values in (HEALTHY | changed).items()
    ]
    asked = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "40m",
        "exp_samples": [{"labels": f'{{alertname="{n}"}}', "value": 1} for n in sorted(raised)],
    }
    return {"interval": "1m", "input_series": series, "promql_expr_test": [asked]}


def test_every_alert_of_andon_itself_has_a_case() -> None:
    raised = set().union(*(fired for _, fired in OWN.values()))
    assert {alert.name for alert in of_andon()} <= raised


def test_names_do_not_repeat() -> None:
    names = [alert.name for alert in alerts()]
    assert len(set(names)) == len(names)
