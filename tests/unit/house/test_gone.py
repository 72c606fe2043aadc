"""What was taken away does not come back: names of modules, classes and functions."""

import re
from fnmatch import filter as matching

import pytest

from tests.support.sources import sources

DEFINED = re.compile(r"^\s*(?:async )?(?:def|class) (\w+)|^(\w+)\s*(?::[^=\n]+)?=", re.MULTILINE)

GONE = {
    "lighter": (
        "engine/", "host/bare_imports.py", "jobs/rules/older_file.py",
        "standalone/quick_start.py", "testing/engine_contract.py", "testing/fake_node.py",
        "testing/node_contract.py", "testing/notices.py", "work/started.py", "CLIENTS_LIBRARIES",
        "ContainerEngineContract", "FakeAlerts", "FakeJobs", "FakeLeases", "FakeLive", "FakeNode",
        "FakePast", "FakeRuns", "HOLDER_VARIABLE", "NodeContract", "OLD_MODULES", "QuickStart",
        "StartedProcess", "_find_old_module", "collect_rarely", "index_words", "is_older",
        "lease_around", "older_jobs_in", "release_memory", "show_as_one_node", "stand_ins",
        "takes_share",
    ),
    "one desk": (
        "cli/commands/jobs/clusters.py", "cli/commands/jobs/elsewhere.py",
        "cli/commands/share/map_there.py", "clusters/slurm/rules/refusals.py",
        "jobs/clusters/kept.py", "jobs/clusters/pages.py", "jobs/clusters/submitting.py",
        "web/jobs/clusters.py", "web/jobs/shown.py", "NodeJobs", "_SharedMap", "refuse_unknown",
        "*_there",
    ),
    "one node": (
        "app/agent.py", "web/server.py", "OpenLab", "open_network_leases", "open_recorder",
        "open_server_jobs", "open_server_runs", "open_uplink", "open_watcher", "past_sender",
    ),
}  # fmt: skip
"""By the order that takes them away. A path ends in .py or /; anything else is a name that no
module defines, or a pattern of such names."""


@pytest.mark.parametrize("order", GONE)
def test_what_is_gone_stays_gone(order: str) -> None:
    paths = sources()
    names = {name for text in paths.values() for pair in DEFINED.findall(text) for name in pair}
    assert "Snapshot" in names  # it can find what there is
    assert "units.py" in paths
    back = [
        gone
        for gone in GONE[order]
        if (
            any(path.startswith(gone) for path in paths)
            if gone.endswith(("/", ".py"))
            else matching(names, gone)
        )
    ]
    assert back == []
