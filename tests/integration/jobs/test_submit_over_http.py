"""Jobs that a server of an ordinary user accepts over HTTP, where the settings allow it."""

import json

import pytest

from tests.integration.machine import on_a_machine

pytestmark = pytest.mark.timeout(180)
UID = 30001
ASKS = """
import json, os, sys, time, urllib.error, urllib.request
from pathlib import Path
url, state = sys.argv[1], Path(os.environ["XDG_STATE_HOME"])
token = (state / "andon" / "token").read_text().strip()

def asked(path, document=None, key=token):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    body = None if document is None else json.dumps(document).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, body, headers)) as answer:
            return [answer.status, json.load(answer)]
    except urllib.error.HTTPError as error:
        return [error.code, error.read().decode()]

job = {"command": "id -u > ran", "folder": "/tmp/state%s" % os.getuid(), "simulate": 1,
       "check": True}
found = {"stranger": asked("/api/jobs", job, "0" * 40)[0],
         "wrong": asked("/api/jobs", {**job, "gpus": "many", "for": 3}),
         "queued": asked("/api/jobs", {**job, "unique": True})}
end = time.monotonic() + 120
while asked("/api/jobs/1")[1]["state"] not in ("succeeded", "failed"):
    assert time.monotonic() < end, asked("/api/jobs/1")
    time.sleep(0.1)
found["ended"] = asked("/api/jobs/1")[1]["state"]
found["log"] = asked("/api/jobs/1/log")[1]
found["ran"] = Path(job["folder"], "ran").read_text().strip()
print("found", json.dumps(found))
"""


def test_a_server_of_an_ordinary_user_queues_what_is_posted_and_it_runs() -> None:
    said = on_a_machine(
        f"""
        export ANDON_JOBS_SUBMIT_OVER_HTTP=yes ANDON_JOBS_IDLE=1s ANDON_LEASE_DIR=/tmp/book
        book /tmp/book
        mkdir /tmp/state{UID}; chown {UID} /tmp/state{UID}
        user {UID} "$PYTHON" -P -m andon.cli serve --simulate 1 --no-history > /tmp/served 2>&1 &
        for i in $(seq 1600); do grep -q http:// /tmp/served && break; sleep 0.05; done
        url=$(grep -o 'http://[0-9.:]*' /tmp/served | head -1)
        user {UID} "$PYTHON" -P -c "$ASKS" $url || cat /tmp/served
        """,
        network=True,
        ASKS=ASKS,
    )
    lines = [line for line in said.splitlines() if line.startswith("found ")]
    assert lines, said
    found = json.loads(lines[0].removeprefix("found "))
    assert found["stranger"] in (401, 403)
    status, words = found["wrong"]
    assert status == 422, found
    assert "gpus" in words, "every mistake is named"
    assert "for" in words
    assert found["queued"][0] == 201, found
    assert found["queued"][1]["jobs"] == [1]
    assert "andon: GPU 0: not_checked: simulated" in str(found["log"]), "it was to be checked"
    assert (found["ended"], found["ran"]) == ("succeeded", str(UID))
