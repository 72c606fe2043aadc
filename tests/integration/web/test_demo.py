"""`andon demo`: a whole lab on the board, in a folder of its own."""

import re
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from andon.units import GIB
from tests.integration.conftest import andon
from tests.integration.demo import END_SECONDS, Demo, running_demo


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("home")
    return {"home": home, "temporary": tmp_path_factory.mktemp("temporary")}


@pytest.fixture(scope="module")
def demo(places: dict[str, Path]) -> Iterator[Demo]:
    env = {
        "HOME": str(places["home"]),
        "XDG_STATE_HOME": str(places["home"] / "state"),
        "TMPDIR": str(places["temporary"]),
        "ANDON_ALERTS_QUIET_HOURS": "nonsense",  # settings are not read
    }
    with running_demo("--seed", "3", **env) as made:
        yield made


def test_every_answer_says_that_it_is_simulated(demo: Demo) -> None:
    assert demo.get("/api/snapshot")["simulated"] is True
    assert demo.get("/api/board")["simulated"] is True
    assert demo.get("/api/alerts")["simulated"] is True
    assert all(job["simulated"] for job in demo.get("/api/jobs")["jobs"])
    assert all(run["simulated"] for run in demo.get("/api/runs")["items"])
    assert all(row["simulated"] for row in demo.get("/api/leases")["leases"])


def test_anyone_sees_the_jobs_and_runs_of_everyone(demo: Demo) -> None:
    page = demo.get("/api/jobs?limit=1000")
    assert page["whole"] is True
    states = {job["state"] for job in page["jobs"]}
    assert {"running", "waiting", "later", "succeeded", "failed", "cancelled"} <= states
    assert {job["user"] for job in page["jobs"]} == {"alice", "bob", "carol", "dora", "erik"}
    assert all(job["reason"] for job in page["jobs"] if job["state"] == "waiting")
    assert [place["user"] for place in page["queue"]] == ["erik", "bob"]
    running = next(job for job in page["jobs"] if job["state"] == "running")
    assert 0 < running["progress"]["step"] < running["progress"]["total"]
    assert demo.get(f"/api/jobs/{running['number']}?user={running['user']}")["command"]
    assert "step" in demo.get(f"/api/jobs/{running['number']}/log")["text"]


def test_the_place_of_a_job_is_the_same_in_the_jobs_and_in_the_queue(demo: Demo) -> None:
    page = demo.get("/api/jobs?state=waiting")
    placed = {job["position"]: job["user"] for job in page["jobs"] if job["position"]}
    assert placed == {place["position"]: place["user"] for place in page["queue"]}
    waiting = demo.get("/api/leases")["waiting"]
    assert placed == {place["position"]: place["user"] for place in waiting}


def test_runs_of_two_groups_can_be_compared(demo: Demo) -> None:
    runs = demo.get("/api/runs?limit=100")["items"]
    assert len({run["user"] for run in runs}) > 3
    for group in ("lr-sweep", "distill"):
        mine = [run for run in runs if run["group"] == group and run["state"] == "succeeded"]
        assert len(mine) > 1
        assert all(run["params"] and "loss" in run["last_values"] for run in mine)
    assert demo.get(f"/api/runs/{runs[0]['id']}")["series"]


def test_people_of_the_lab_have_reserved_for_the_days_to_come(demo: Demo) -> None:
    found = demo.get("/api/reservations")["reservations"]
    assert {row["user"] for row in found} == {"alice", "bob", "carol"}
    assert all(row["simulated"] and row["begins"] > time.time() for row in found)
    spans = [(row["begins"], row["ends"]) for row in found]
    assert all(one[1] <= other[0] for one, other in pairwise(spans)), "no GPU is promised twice"


def test_devices_leases_and_alerts_are_those_of_the_lab(demo: Demo) -> None:
    deadline = time.monotonic() + 20
    while (board := demo.get("/api/board"))["devices"][6]["lamp"] != "red":
        assert time.monotonic() < deadline
        time.sleep(0.5)
    lost = board["devices"][6]["lit_by"]
    assert (lost["rule"], lost["acknowledged_by"]) == ("device_lost", "dora")
    leases = demo.get("/api/leases")
    assert {row["user"] for row in leases["leases"]} == {"alice", "bob", "carol", "dora"}
    assert [row["index"] for row in leases["cordons"]] == [7]
    free = [row["index"] for row in leases["devices"] if row["kind"] == "free"]
    assert free == [5]
    rules = {alert["rule"]: alert for alert in demo.get("/api/alerts")["alerts"]}
    assert {"thermal", "idle_lease", "device_lost", "throttle_power"} <= rules.keys()
    assert rules["throttle_power"]["silenced_until"] is not None


def test_the_values_of_the_machine_are_the_lab_s(demo: Demo) -> None:
    host = demo.get("/api/snapshot")["host"]
    assert host["memory_total_bytes"] == 1008 * GIB
    assert [disk["mount"] for disk in host["disk"]] == ["/"]
    assert (host["network"], host["network_sent_bytes_per_second"]) == ([], None)
    assert host["missing"]["network_sent_bytes_per_second"] == "not simulated"


def test_no_process_of_this_machine_is_named(demo: Demo) -> None:
    alerts = demo.get("/api/alerts")["alerts"]
    named = [one["pid"] for alert in alerts for one in alert["affected"]]
    named += [row["pid"] for row in demo.get("/api/leases")["leases"]]
    assert named
    assert all(pid > 2**22 for pid in named), "above the largest pid of any machine"


def test_the_account_that_started_it_signs_in_at_any_time(demo: Demo) -> None:
    done = andon("open", "--print", "--url", demo.url)
    assert (done.code, "signed in as erik" in done.err) == (0, True)
    code = done.out.strip().partition("#code=")[2]
    secret = demo.post("/api/session", {"code": code})["secret"]
    assert demo.post("/api/links", secret=secret)["code"], "as the owner"


def test_a_lost_gpu_has_one_begin_which_is_where_its_chart_ends(demo: Demo) -> None:
    alerts = demo.get("/api/alerts")["alerts"]
    begun = next(one["since"] for one in alerts if one["rule"] == "device_lost")
    found = demo.get("/api/snapshot")["devices"][6]
    assert (found["state"], round(found["since"], 1)) == ("lost", round(begun, 1))
    assert round(found["sample"]["at"], 1) == round(begun, 1)
    for words in (["status"], ["why", "6"], ["alerts"]):
        said = andon(*words, "--url", demo.url).out
        assert re.search(r"(?is)lost.* for (at least )?(25|26|27) min", said), said


def test_a_day_is_drawn_at_once(demo: Demo) -> None:
    found = demo.get("/api/charts?metric=utilization_percent&points=360")["devices"]
    assert len(found) == 8
    for band in found.values():
        assert sum(value is not None for value in band["mean"]) > 330


def test_a_visitor_changes_something_only_after_signing_in(demo: Demo) -> None:
    mine = [job for job in demo.get("/api/jobs?limit=1000")["jobs"] if job["user"] == "erik"]
    waits = next(job["number"] for job in mine if job["state"] == "waiting")
    with pytest.raises(HTTPError, match="401"):
        demo.post(f"/api/jobs/{waits}/cancel")
    secret = demo.signed_in()
    others = next(j for j in demo.get("/api/jobs?state=running")["jobs"] if j["user"] != "erik")
    with pytest.raises(HTTPError, match="403"):
        demo.post(f"/api/jobs/{others['number']}/cancel?user={others['user']}", secret=secret)
    demo.post(f"/api/jobs/{waits}/cancel", secret=secret)
    assert demo.get(f"/api/jobs/{waits}")["state"] == "cancelled"
    taken = demo.post("/api/leases", {"seconds": 600, "devices": ["5"]}, secret=secret)
    rows = demo.get("/api/leases")["leases"]
    assert [row["user"] for row in rows if row["id"] == taken["id"]] == ["erik"]
    made = demo.post("/api/reservations", {"seconds": 600, "devices": ["4"]}, secret=secret)
    own = [row for row in demo.get("/api/reservations")["reservations"] if row["user"] == "erik"]
    assert [row["id"] for row in own] == [made["id"]]


def test_only_addresses_of_the_server_become_a_code(demo: Demo) -> None:
    with urlopen(f"{demo.url}/api/qr?link={demo.url}/%23/charts", timeout=20) as answer:
        assert answer.headers["content-type"] == "image/svg+xml"
        assert answer.read().startswith(b"<?xml")
    for link in ("http://elsewhere.example/", demo.url.replace("//", "//user@"), ""):
        with pytest.raises(HTTPError, match="422"):
            demo.get(f"/api/qr?link={link}")


def test_a_port_that_is_in_use_is_named(demo: Demo) -> None:
    port = demo.url.rpartition(":")[2]
    done = andon("demo", "--port", port)
    assert (done.code, done.err.splitlines()[0]) == (
        6,
        f"andon: port {port} on 127.0.0.1 is in use",
    )


def test_it_leaves_nothing_behind(demo: Demo, places: dict[str, Path]) -> None:
    assert not (places["home"] / "state").exists()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(END_SECONDS) == 0
    assert list(places["temporary"].glob("andon-demo-*")) == []
