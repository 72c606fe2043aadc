"""A real server with clusters of another package: the list, the log, cancel, one that hangs."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import JobSpec
from andon.testing.fake_cluster import FakeCluster, PlayedNode
from andon.web.answers.description import ANSWERS
from tests.integration.serving import Served, serving
from tests.support.described import check
from tests.support.third_party import installed
from tests.support.waiting import wait_for

PATIENCE = 60.0


class Site:
    """A server, and the clusters that its settings name."""

    def __init__(self, served: Served, lab: FakeCluster, slow: FakeCluster) -> None:
        self.served, self.lab, self.slow = served, lab, slow

    def ask(self, path: str, method: str = "GET", status: int = 200) -> Any:
        body = "" if method == "POST" else None
        answer = self.served.ask(path, method, body, **self.served.bearer)
        assert answer.status == status, answer.body
        return answer.json()

    def job(self, label: str) -> Any:
        found = [one for one in self.ask("/api/jobs")["jobs"] if one["label"] == label]
        return found[0] if found else None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    package, folder = installed(tmp_path_factory), tmp_path_factory.mktemp("clusters")
    made = {
        name: FakeCluster.make(folder / name, PlayedNode("n1", 2), now=time.time())
        for name in ("lab", "slow")
    }
    file = folder / "andon.toml"
    file.write_text(
        "".join(
            f'[clusters.{name}]\nkind = "counting-house"\nfolder = "{folder / name}"\ntimeout = 2\n'
            for name in made
        )
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANDON_CONFIG", str(file))
        patch.setenv("PYTHONPATH", str(package))
        patch.setenv("ANDON_LEASE_DIR", str(folder / "book"))
        with serving(tmp_path_factory.mktemp("home"), "--no-history", simulate=1) as served:
            yield Site(served, made["lab"], made["slow"])


def submitted(lab: FakeCluster, name: str, script: str) -> str:
    spec = JobSpec(0, name, ("sh", "-c", script), "/", DeviceRequest(), time.time())
    return "lab:" + lab.submit(Submission(f"l{name}", spec))


def test_jobs_of_a_cluster_are_listed_read_and_cancelled(site: Site) -> None:
    label = submitted(site.lab, "train", "echo hello; sleep 1000")
    wait_for(lambda: site.job(label) is not None, PATIENCE)
    page = site.ask("/api/jobs")
    check(page, ANSWERS["get", "/api/jobs"])
    assert {one["name"] for one in page["clusters"]} == {"lab", "slow"}
    job = site.ask(f"/api/jobs/{label}")
    check(job, ANSWERS["get", "/api/jobs/{job}"])
    assert (job["engine"], job["where"], job["name"]) == ("lab", "n1 GPU 0", "train")
    log = site.ask(f"/api/jobs/{label}/log")
    check(log, ANSWERS["get", "/api/jobs/{job}/log"])
    assert (log["job"], log["text"]) == (label, "hello\n")
    assert site.ask(f"/api/jobs/{label}/log?start={log['end']}")["text"] == ""
    done = site.ask(f"/api/jobs/{label}/cancel", "POST")
    assert (done["job"], done["outcome"]) == (label, "is asked to end")
    wait_for(lambda: site.job(label)["state"] == "cancelled", PATIENCE)
    site.ask(f"/api/jobs/{label}/retry", "POST", 422)
    site.ask("/api/jobs/lab:none", status=404)
    site.ask("/api/jobs/lab:none/log", status=404)
    site.ask("/api/jobs/lab:a/b/c", status=404)
    site.ask("/api/jobs/nonsense", status=422)


def test_strangers_see_that_it_exists_and_change_nothing(site: Site) -> None:
    label = submitted(site.lab, "secret", "echo secret; sleep 1000")
    wait_for(lambda: site.job(label) is not None, PATIENCE)
    page = site.served.ask("/api/jobs")
    assert label in page.body
    assert "secret" not in page.body
    assert site.served.ask(f"/api/jobs/{label}/log").status == 403
    assert site.served.ask(f"/api/jobs/{label}/cancel", "POST", "").status == 401


def test_one_that_hangs_delays_neither_the_list_nor_the_others(site: Site) -> None:
    label = submitted(site.lab, "beside", "echo hello; sleep 1000")
    site.slow.break_(slow=1000)
    wait_for(lambda: site.job(label) is not None, PATIENCE)

    def trouble() -> Any:
        states = {one["name"]: one["trouble"] for one in site.ask("/api/jobs")["clusters"]}
        assert states["lab"] is None
        return states["slow"]

    wait_for(lambda: trouble() is not None, PATIENCE)
    assert site.ask(f"/api/jobs/{label}/log")["text"] == "hello\n"
    site.slow.break_()
    wait_for(lambda: trouble() is None, PATIENCE)


def test_jobs_for_a_cluster_are_not_accepted_over_the_network(site: Site) -> None:
    body = json.dumps({"command": ["true"], "on": "lab"})
    kind = {"Content-Type": "application/json"}
    answer = site.served.ask("/api/jobs", "POST", body, **site.served.bearer, **kind)
    assert answer.status in (403, 422)
