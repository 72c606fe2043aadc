"""The audit log as it is read: a request and its result in one row."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.access.audit_trail import audit_rows
from andon.errors import Denied
from andon.model.job.spec import MOST_ARRAY, MOST_JOBS
from andon.node.audit_file import NAME, audit_lines

LINES = [
    {"at": 1.0, "event": "started", "address": "127.0.0.1", "port": 26366},
    {"at": 2.0, "event": "requested", "id": "a", "user": "dora", "uid": 7, "action": "release",
     "method": "DELETE", "path": "/api/leases/k7qm2", "peer": "127.0.0.1", "key": "session"},
    {"at": 2.1, "event": "done", "id": "a", "status": 200, "lease": "k7qm2"},
    {"at": 3.0, "event": "requested", "id": "b", "user": "dora", "uid": 7, "action": "extend",
     "method": "POST", "path": "/api/leases/zz/renew", "peer": "127.0.0.1", "key": "session"},
    {"at": 3.1, "event": "done", "id": "b", "status": 409},
    {"at": 4.0, "event": "refused", "count": 3, "user": "dora", "uid": 7, "action": "cordon",
     "method": "PUT", "path": "/api/devices/0/cordon", "peer": "127.0.0.1", "key": "session"},
    {"at": 5.0, "event": "requested", "id": "c", "method": "POST", "path": "/api/session",
     "action": "sign_in", "user": None, "uid": None, "peer": "127.0.0.1", "key": "code"},
    {"at": 5.1, "event": "done", "id": "c", "status": 200, "user": "erik", "uid": 8},
    {"at": 6.0, "event": "requested", "id": "d", "user": "root", "uid": 0, "action": "take",
     "method": "POST", "path": "/api/leases", "peer": "10.0.0.7", "key": "token"},
]  # fmt: skip
TEXT = [json.dumps(line) for line in LINES]


def test_a_request_and_its_result_are_one_row() -> None:
    found = [(r.user, r.action, r.subject, r.result, r.count) for r in audit_rows(TEXT)]
    assert found == [
        (None, "started", "127.0.0.1:26366", "done", 1),
        ("dora", "release", "k7qm2", "done", 1),
        ("dora", "extend", "zz", "failed", 1),
        ("dora", "cordon", "0", "refused", 3),
        ("erik", "sign_in", None, "done", 1),
        ("root", "take", None, "unfinished", 1),
    ]
    assert [row.action for row in audit_rows(TEXT, since=4.5)] == ["sign_in", "take"]


def test_what_a_request_has_made_is_its_subject() -> None:
    made = (
        ("silence", "/api/silences", {"silence": "94bf thermal@GPU-3"}, "94bf thermal@GPU-3"),
        ("submit", "/api/jobs", {"jobs": [12, 13]}, "12, 13"),
        ("submit", "/api/jobs", {"jobs": "12"}, None),
        ("manage_nodes", "/api/nodes", {"node": "n17"}, "n17"),
        ("manage_tokens", "/api/tokens", {"token": "ci", "role": "read"}, "ci"),
        ("silence", "/api/silences", {"silence": 5}, None),
    )
    for action, path, noted, subject in made:
        asked = {"at": 1.0, "event": "requested", "id": "a", "action": action, "path": path}
        done = {"at": 1.1, "event": "done", "id": "a", "status": 200, **noted}
        (row,) = audit_rows([json.dumps(asked), json.dumps(done)])
        assert row.subject == subject


def test_what_was_done_is_named_where_an_action_covers_several() -> None:
    asked = (
        ("drain", "/api/nodes/n17/resume", "resume"),
        ("drain", "/api/nodes/n17/drain", "drain"),
        ("move", "/api/jobs/12/hold", "hold"),
        ("extend", "/api/leases/zz/renew", "extend"),
    )
    for action, path, named in asked:
        line = {"at": 1.0, "event": "requested", "id": "a", "action": action, "path": path}
        (row,) = audit_rows([json.dumps(line)])
        assert (row.action, row.subject) == (named, path.split("/")[3])


@given(st.lists(st.text() | st.sampled_from(TEXT) | st.builds(lambda s, n: s[:n],
       st.sampled_from(TEXT), st.integers(0, 80)), max_size=12))  # fmt: skip
def test_a_torn_or_foreign_line_costs_only_itself(lines: list[str]) -> None:
    whole = {line for line in lines if line in TEXT and '"done"' not in line}
    assert len(audit_rows(lines)) >= len({json.loads(line).get("id", line) for line in whole})


def test_impossible_times_and_ids_cost_only_their_line() -> None:
    asked = {"event": "requested", "id": "x", "action": "take", "path": "/api/leases"}
    for at in ("true", "false", "NaN", "Infinity", "-1", "1e308", "1" + "0" * 400, "null", '"1"'):
        line = json.dumps({**asked, "at": 1}).replace('"at": 1', f'"at": {at}')
        assert [row.at for row in audit_rows([line, TEXT[0]])] == [1.0], at
    for named in ([1], {"a": 1}, [[1]], None, 5):
        lines = [json.dumps({**asked, "at": 1, "id": named}), TEXT[0]]
        assert [row.action for row in audit_rows(lines)] == ["take", "started"], named


def test_a_request_that_queued_as_many_jobs_as_one_may_is_done() -> None:
    asked = {"at": 1.0, "event": "requested", "id": "a", "action": "submit", "path": "/api/jobs"}
    numbers = list(range(MOST_JOBS - MOST_ARRAY, MOST_JOBS))
    done = {"at": 1.1, "event": "done", "id": "a", "status": 201, "jobs": numbers}
    (row,) = audit_rows([json.dumps(asked), json.dumps(done)])
    assert (row.result, (row.subject or "")[:7]) == ("done", str(numbers[0]))


def test_a_log_that_is_no_file_can_be_moved_away(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(Denied, match="not a regular file") as told:
        list(audit_lines(tmp_path))
    assert told.value.hint == "move it away: the server begins another"
