"""Commands that andon prints for people to paste: words of others in them are quoted by `sh`.

Only f-strings are looked at, and of their values only those that stand in a command.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from andon.cli.catalogue import COMMANDS
from tests.conftest import REPOSITORY

SOURCE = REPOSITORY / "src/andon"
PROGRAMS = (
    "chmod", "chown", "createdb", "docker", "find", "fuser", "grep", "kill", "kubectl", "ls",
    "mkdir", "pip", "ps", "rm", "scancel", "scontrol", "ssh", "sudo",
)  # fmt: skip
NAMES = rf"(?:{'|'.join(PROGRAMS)}|andon (?:{'|'.join(COMMANDS)}))"
MAY_HAVE = re.compile(rf"f[\"'][^\n]*\b{NAMES} [^\n]*\{{")
BEGUN = re.compile(rf"(?:^|[\s:;(`]){NAMES} [^;,]*$")
"""The text before a value, if it begins a command whose word the value is."""
QUOTED = re.compile(r"(?:sh|shell_line|shlex\.\w+)\(")

NUMBERS = {
    "cli/commands/watch/serve.py": {"port", "there"},
    "doctor/rules/books.py": {"_SET_UP", "most.uid", "quoted"},
    "doctor/rules/driver.py": {
        "awake[0].pci", "name", "vendor.drivers[0]", "vendor.log_search",
    },
    "doctor/rules/security.py": {"_another(listener.port)", "mode", "quoted"},
    "explain/conditions/clocks/phrases.py": {"device.index", "option"},
    "explain/conditions/heat/phrases.py": {"device.index", "lower"},
    "host/processes/handles.py": {"pid"},
    "kill/rules/plan.py": {"lease.id", "number.name[3:]", "pids", "target.pid"},
    "leases/book/lock_holders.py": {"' '.join(map(str, found[:MOST_HEIRS]))", "pids[0]"},
    "leases/releaser.py": {"pid"}, "leases/rules/occupants.py": {"' '.join(named)"},
}  # fmt: skip
"""Numbers, what andon's own tables have, and parts that are quoted before."""
IDS = {
    "api/submit.py": {"self.label"}, "app/messages/jobs.py": {"view.label"},
    "cli/commands/explain/alerts.py": {"made"}, "cli/commands/runs/compare.py": {"row.id"},
    "cli/commands/runs/opened.py": {"row.id"},
    "cli/commands/runs/show.py": {"row.id", "verb"},
    "cli/commands/share/around.py": {"lease.id"}, "cli/map_session.py": {"row.id"},
    "cli/show/render.py": {"entry.label"},
    "explain/conditions/sharing/phrases.py": {"name"},
    "explain/conditions/sharing/reservation_ahead.py": {"about.reserved.name"},
    "explain/conditions/sharing/reservation_unused.py": {"one.name"},
    "fleet/rules/past.py": {"row.id"},
    "jobs/acts.py": {"facts.spec.label", "label", "verb"}, "jobs/rules/states.py": {"spec.label"},
    "leases/placement.py": {"lease.id"}, "leases/rules/rights.py": {"lease.id"},
    "node/local/leases.py": {"held[0].id"}, "runs/rules/usage_text.py": {"begin.id", "identity"},
    "web/fleet/hub.py": {"name"}, "web/fleet/leader_duties.py": {"row.name"},
    "web/fleet/tokens.py": {"name"}, "runs/growing.py": {"run"},
    "node/watched/run_details.py": {"row.id"}, "node/watched/runs.py": {"row.id"},
    "work/lease_watch.py": {"hours", "lease.id"}, "work/session.py": {"placement.lease_id"},
}  # fmt: skip
"""Ids and names that were checked by their alphabet when they were read."""
SYSTEM = {
    "callbacks/training.py": {"package"}, "doctor/rules/installation.py": {"names"},
    "doctor/rules/access.py": {
        "' '.join((node.path for node in nodes[:4]))", "facts.user.name", "nodes[0].group",
        "spec.path",
    },
    "doctor/rules/devices.py": {"vendor.log_search or '-e gpu'"},
    "doctor/rules/system.py": {"facts.user.name", "proc.group"},
    "drivers/shared/kernel.py": {"', or '.join(names)"}, "engines/rules/answers.py": {"name"},
    "explain/conditions/open_files.py": {
        "vendor.device_files", "vendor.title", "vendor_of(device.vendor).device_files",
    },
    "leases/book/places.py": {"SYSTEM_BOOK"}, "registry.py": {"package", "packages[0]"},
}  # fmt: skip
"""Names that only root chooses, or whoever installs packages here."""
OTHERWISE = {
    "cli/commands/setup/slurm.py": {"_DOES[kind]"}, "clusters/kubernetes/records.py": {"node"},
    "clusters/kubernetes/rules/failures.py": {"kind", "name", "scope", "verb", "who"},
    "cli/show/reports/checks.py": {"result.label"},
    "clusters/kubernetes/transport.py": {"exc.strerror or exc"},
    "host/state/user_folder.py": {"user_name(_uid())"}, "jobs/clusters/desk.py": {"prefix"},
    "node/ssh/calls.py": {"exc.strerror"}, "node/ssh/failures.py": {"named"},
    "web/fleet/reported.py": {"self.name"},
    "work/map/pool.py": {"place.label"},
}  # fmt: skip
"""Sentences that only begin like a command, and parts that were made of quoted words."""


def raw_words(source: str) -> Iterator[str]:
    """Yields the values that stand in a command as they are."""
    for node in ast.walk(ast.parse(source)):
        before = ""
        for part in node.values if isinstance(node, ast.JoinedStr) else ():
            if isinstance(part, ast.FormattedValue):
                word = ast.unparse(part.value)
                if BEGUN.search(before) and not QUOTED.match(word):
                    yield word
                before += "VALUE"
            elif isinstance(part, ast.Constant):
                before += str(part.value)


@pytest.mark.slow
def test_words_of_others_in_a_command_to_paste_are_quoted() -> None:
    found = dict[str, set[str]]()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if MAY_HAVE.search(text) and (words := set(raw_words(text))):
            found[path.relative_to(SOURCE).as_posix()] = words
    assert found == {**NUMBERS, **IDS, **SYSTEM, **OTHERWISE}


def test_a_raw_word_is_seen() -> None:
    source = 'f"to end it: kill {pid}; see {page} or ssh -t {host} andon"\nf"rm {sh(path)}"'
    assert list(raw_words(source)) == ["pid", "host"]
