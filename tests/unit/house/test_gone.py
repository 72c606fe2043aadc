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
    "servers as lists of parts": (
        "app/agent.py", "web/server.py", "OpenLab", "open_network_leases", "open_recorder",
        "open_server_jobs", "open_server_runs", "open_uplink", "open_watcher", "past_sender",
    ),
    "one node": (
        "LatestRuns",
        "cli/drawn_table.py", "cli/ssh/table.py", "web/app_state.py", "web/fleet/node_state.py",
        "web/served/", "AppState", "ServingNode", "_Jobs", "_Watcher",
        "drawn_table", "latest_snapshot", "run_without_options", "run_without_parser",
        "ListedJobs", "ReportedDesk", "RunNews", "ServerRuns", "SharedFiles", "UnfinishedJobs",
        "UserFileReader", "UserFiles", "UsersDesk",
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


IMITATION = re.compile(r"\bcast\(|def __getattr__\b")


def test_no_part_of_a_server_is_taken_for_another() -> None:
    servers = {
        path: text for path, text in sources().items() if path.startswith(("web/", "fleet/"))
    }
    assert {
        path: found for path, text in servers.items() if (found := IMITATION.findall(text))
    } == {}


def test_a_server_does_not_know_whether_it_is_a_demo() -> None:
    servers = "".join(text for path, text in sources().items() if path.startswith(("web/", "app/")))
    assert not re.findall(r"\bdemo is (?:not )?None", servers)


def test_a_node_of_a_server_knows_nothing_of_who_asks() -> None:
    """Rights are in node/seen, in front of it."""
    nodes = ("node/served.py", "node/watched/", "web/fleet/reported.py", "web/demo/")
    known = re.compile(
        r"from andon\.node\.seen\.(?!texts )|roles import .*\bIdentity\b|\brefusal_for\b"
    )
    found = {path for path, text in sources().items() if known.search(text)}
    assert "web/live/events.py" in found
    assert {path for path in found if path.startswith(nodes)} == set()
