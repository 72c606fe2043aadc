"""A server that root runs, with three users signed in: everyone sees their own, and the queue."""

import json
from typing import Any

from tests.integration.machine import ASKING, on_a_machine, told
from tests.support.shared_machine import SHARED

LINKS = r"""
links=$(for one in alice bob carol; do andon_as $one open --print 2>/dev/null; done
    andon open --print 2>/dev/null)
"""
LOOK = """
names = ("alice", "bob", "carol", "root")
keys = {name: enter(link)[1]["secret"] for name, link in zip(names, sys.argv[1:])}
keys["nobody"] = None
out = {name: {} for name in keys}
for name, key in keys.items():
    for path in ("jobs", "runs", "jobs/1", "jobs/2", "jobs/2?user=alice", "jobs/2/log?user=alice",
                 "runs/alicerun", "runs/alicerun/events"):
        out[name][path] = ask("GET", "/api/" + path, key)
def act(name, path):
    return ask("POST", "/api/jobs/" + path, keys[name], {})
out["acts"] = {
    "not hers": [act(who, "2/cancel?user=alice") for who in ("bob", "root", "nobody")],
    "number": act("bob", "2/cancel"),
    "first": act("alice", "2/move"),
    "cancelled": act("alice", "2/cancel"),
    "again": act("alice", "2/retry"),
    "running": act("alice", "2/requeue"),
    "gone": act("alice", "77/cancel"),
}
print(json.dumps(out))
"""


def machine(script: str, **programs: str) -> dict[str, Any]:
    programs = {name: ASKING + text for name, text in programs.items()}
    return told(on_a_machine(SHARED + script, network=True, **programs))


def test_everyone_sees_their_own_jobs_and_runs_and_the_queue_of_all() -> None:
    found = machine(
        r"""
        three_users
        serving
        """
        + LINKS
        + r"""
        "$PYTHON" -P -c "$LOOK" $links | said seen
        andon_as alice jobs --all 2>&1 | said hers
        andon jobs --all --simulate 4 2>&1 | said all
        andon audit --json | said audit
        """,
        LOOK=LOOK,
    )
    seen = found["seen"]
    listed = {name: seen[name]["jobs"][1] for name in ("alice", "bob", "carol", "root", "nobody")}
    assert {name: page["scope"] for name, page in listed.items()} == {
        "alice": "own", "bob": "own", "carol": "own", "root": "everyone", "nobody": "server",
    }  # fmt: skip
    jobs = {name: [job["name"] for job in page["jobs"]] for name, page in listed.items()}
    assert jobs["alice"] == ["secret-sweep", "alice-job"]
    assert (jobs["bob"], jobs["carol"], jobs["nobody"]) == (["bob-job"], [], [])
    assert sorted(jobs["root"]) == ["alice-job", "bob-job", "secret-sweep"]
    (queue,) = {json.dumps(page["queue"]) for page in listed.values()}
    (place,) = json.loads(queue)
    assert (place["user"], place["gpus"], place["jobs_behind"]) == ("alice", 1, 0)
    assert place["reason"] == "1 GPU requested, 0 free: bob has them"
    assert "secret" not in queue

    runs = {name: {one["name"] for one in seen[name]["runs"][1]["items"]} for name in listed}
    assert runs["alice"] == {"alice-run"}
    assert runs["bob"] == {"bob-run", "sleep"}
    assert runs["carol"] == runs["nobody"] == set()
    assert runs["root"] == {"alice-run", "bob-run", "sleep"}
    (own,) = seen["alice"]["runs"][1]["items"]
    assert (own["user"], own["command"]) == ("alice", "alice-secret"), "the record says root"

    statuses = {name: [seen[name][path][0] for path in seen[name]] for name in listed}
    assert statuses == {
        #         lists     jobs/1, 2   of alice    run
        "alice": [200, 200, 200, 200, 200, 200, 200, 200],
        "bob": [200, 200, 200, 404, 403, 403, 404, 404],
        "carol": [200, 200, 404, 404, 403, 403, 404, 404],
        "root": [200, 200, 404, 404, 200, 200, 200, 200],
        "nobody": [200, 200, 404, 404, 403, 403, 404, 404],
    }
    others = json.dumps([seen[name] for name in ("bob", "carol", "nobody")])
    assert "secret-sweep" not in others
    assert "hidden.py" not in others
    assert "alice-" not in others

    acts = seen["acts"]
    assert [status for status, _ in acts["not hers"]] == [403, 403, 401]
    assert acts["number"][0] == acts["gone"][0] == 404
    assert acts["first"] == [200, {"job": 2, "outcome": "moved", "note": None}]
    assert acts["cancelled"][1]["outcome"] == "cancelled"
    assert acts["again"][1]["outcome"] == "waits again"
    assert acts["running"][0] == 409
    assert "secret-sweep" in found["hers"]
    assert "queue of this machine" in found["hers"]
    assert "bob-job" not in found["hers"]
    assert "bob-job" in found["all"]
    assert "secret-sweep" in found["all"]
    done = [(one.get("user"), one.get("action")) for one in found["audit"]["items"]]
    assert ("alice", "cancel") in done
    assert ("alice", "retry") in done


def test_a_command_with_a_url_means_the_jobs_of_who_types_it() -> None:
    """alice and bob have a job 1 each; no one has a token of the server."""
    found = machine(
        r"""
        three_users
        serving
        url=http://127.0.0.1:26366
        andon_as alice jobs --url $url 2>&1 | said listed
        andon_as bob jobs show 1 --url $url 2>&1 | said shown
        (andon_as bob cancel 2 --url $url 2>&1 || echo rc $?) | said not_his
        (andon_as carol logs 1 --url $url 2>&1 || echo rc $?) | said none
        andon_as alice cancel secret-sweep --url $url 2>&1 | said cancelled
        """
    )
    assert "secret-sweep" in found["listed"]
    assert "bob-job" not in found["listed"]
    assert "bob-job" in found["shown"]
    for name, text in (("bob", found["not_his"]), ("carol", found["none"])):
        assert f"{name} has no job" in text
        assert text.endswith("rc 5")
    assert "job 2 cancelled" in found["cancelled"]


HOSTILE = """
import os
def page(name, path="jobs"):
    began = time.monotonic()
    status, body = ask("GET", "/api/" + path, keys[name])
    return status, body, time.monotonic() - began < 30
keys = {name: enter(link)[1]["secret"] for name, link in zip(("alice", "bob", "carol", "root"),
                                                              sys.argv[1:])}
out = {name: [page(name), page(name, "runs"), page(name, "runs/rootrun1")] for name in keys}
others = [pid for pid in os.listdir("/proc") if pid.isdecimal() and int(pid) != os.getpid()]
me = [open(f"/proc/{pid}/status").read() for pid in others
      if b"user-reader" in open(f"/proc/{pid}/cmdline", "rb").read()]
out["readers"] = [{line.split(":")[0]: line.split(":")[1].split() for line in text.splitlines()
                   if line.startswith(("Uid", "Gid", "NoNewPrivs", "CapPrm", "CapEff", "Threads"))}
                  for text in me]
print(json.dumps(out))
"""


def test_links_pipes_and_foreign_files_in_a_home_reach_nothing_of_roots() -> None:
    """bob's queue is root's through a link, carol's a pipe and endless; alice is not affected."""
    found = machine(
        r"""
        three_users
        "$PYTHON" -P -c '
import sys; sys.path.append("'$TESTS'")
from tests.support.shared_machine import main
main("root")'
        node=$(ls /root/.local/state/andon/nodes)
        theirs() { echo /home/$1/.local/state/andon; }
        as carol mkdir -p $(theirs carol)/runs $(theirs carol)/nodes/$node/jobs/1
        as carol mkfifo $(theirs carol)/nodes/$node/jobs/1/job.json $(theirs carol)/runs/a.jsonl
        as carol sh -c "head -c 2000000 /dev/zero > $(theirs carol)/nodes/$node/jobs/holdups.json"
        as carol ln -s /dev/zero $(theirs carol)/runs/b.jsonl
        as bob ln -s /root/.local/state/andon/runs/rootrunx.jsonl $(theirs bob)/runs/stolen.jsonl
        as bob rm -r $(theirs bob)/nodes/$node/jobs
        as bob ln -s /root/.local/state/andon/nodes/$node/jobs $(theirs bob)/nodes/$node/jobs
        chmod 755 /root; chmod -R a+rX /root/.local
        serving
        """
        + LINKS
        + r"""
        "$PYTHON" -P -c "$HOSTILE" $links | said seen
        """,
        HOSTILE=HOSTILE,
    )["seen"]
    alice, bob, carol, root = (found[name] for name in ("alice", "bob", "carol", "root"))
    assert [job["name"] for job in alice[0][1]["jobs"]] == ["secret-sweep", "alice-job"]
    assert "root-job" not in json.dumps(bob)
    assert "root-secret" not in json.dumps([alice, bob, carol])
    assert carol[0][0] == 200
    assert carol[0][1]["jobs"] == []
    assert carol[1][1]["items"] == []
    assert root[0][0] == 200
    assert {"secret-sweep", "root-job"} <= {job["name"] for job in root[0][1]["jobs"]}
    assert all(quick for one in (alice, bob, carol, root) for _, _, quick in one)
    uids = {one["Uid"][0] for one in found["readers"]}
    assert uids <= {"1234", "1235", "1236"}
    assert uids
    for one in found["readers"]:
        assert len(set(one["Uid"])) == len(set(one["Gid"])) == 1
        assert (one["NoNewPrivs"], one["Threads"]) == (["1"], ["1"])
        assert int(one["CapPrm"][0], 16) == int(one["CapEff"][0], 16) == 0
