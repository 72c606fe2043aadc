"""The board with a cluster: its jobs in the one list, one of them with its output, and the line
about a cluster that does not answer."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ViewportSize, expect

from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import JobSpec
from andon.testing.fake_cluster import FakeCluster, PlayedNode
from tests.integration.board import sign_in, violations
from tests.integration.browser import Window
from tests.integration.serving import Served, serving
from tests.support.third_party import installed

PHONE = ViewportSize(width=390, height=844)
PATIENCE_MS = 60_000
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clusters")


@pytest.fixture(scope="module")
def lab(folder: Path) -> FakeCluster:
    return FakeCluster.make(folder / "lab", PlayedNode("n1", 1), now=time.time())


@pytest.fixture(scope="module")
def home(
    folder: Path, lab: FakeCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    file = folder / "andon.toml"
    file.write_text(f'[clusters.lab]\nkind = "counting-house"\nfolder = "{folder / "lab"}"\n')
    with serving(
        tmp_path_factory.mktemp("home"), "--no-history", simulate=1,
        ANDON_CONFIG=str(file),
        ANDON_LEASE_DIR=str(folder / "book"),
        PYTHONPATH=str(installed(tmp_path_factory)),
    ) as served:  # fmt: skip
        yield served


def submitted(lab: FakeCluster, name: str, script: str) -> None:
    spec = JobSpec(0, name, ("sh", "-c", script), "/", DeviceRequest(), time.time())
    lab.submit(Submission(f"l{name}", spec))


def test_jobs_of_a_cluster_are_on_the_page_of_jobs(
    home: Served, lab: FakeCluster, seen: Window
) -> None:
    submitted(lab, "train", "echo hello; sleep 1000")
    submitted(lab, "eval", "true")
    page = seen.page
    sign_in(page, home)
    page.goto(f"{home.url}/#/jobs")
    expect(page.get_by_role("link", name="lab:4711")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator('td[data-name="where"]').first).to_have_text("n1 GPU 0")
    expect(page.get_by_text("needs 1 GPU on one node: n1 has 0 free")).to_be_visible()
    assert violations(page.get_by_role("main")) == []
    lab.break_(away="connection refused")
    away = page.get_by_text("(connection refused); its jobs are as of")
    expect(away).to_be_visible(timeout=PATIENCE_MS)
    assert violations(page.get_by_role("main")) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.set_viewport_size({"width": 1280, "height": 800})
    lab.break_()
    expect(away).to_be_hidden(timeout=PATIENCE_MS)
    page.get_by_role("link", name="lab:4711").click()
    expect(page.get_by_role("heading", name="Job lab:4711 train")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("hello", timeout=PATIENCE_MS)
    assert violations(page.get_by_role("main")) == []
    expect(page.get_by_role("button", name="Move to other GPUs")).to_have_count(0)
    page.get_by_role("button", name="Cancel this job").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_role("status").filter(has_text="cancelled")).to_be_visible(
        timeout=PATIENCE_MS
    )
