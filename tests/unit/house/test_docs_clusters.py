"""Pages on clusters: what they promise about desks and failures is there."""

import re

from andon.cli.commands.setup.slurm import EPILOG, LINES, PROLOG
from andon.clusters.kubernetes import KubernetesCluster
from andon.clusters.ray import RayCluster
from andon.clusters.slurm import SlurmCluster
from andon.clusters.ssh import SshQueue
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.able import NEEDS
from andon.jobs.rules.cluster_views import ClusterPage, page_line
from andon.model.job.desk import Able
from andon.node.remote.jobs import ServerDesk
from andon.node.seen.jobs import SeenJobs
from tests.conftest import REPOSITORY

PAGES = ("clusters.md", "slurm.md", "kubernetes.md", "ray.md")
PAGE = "\n".join((REPOSITORY / "docs" / name).read_text(encoding="utf-8") for name in PAGES)

BESIDE_OPTIONS = {
    Able.QUEUED: "jobs hold, resume, retry, requeue and move",
    Able.PREVIEW: "--dry-run shows what would be sent",
    Able.FOREGROUND: "run with the terminal: input, output and signals",
}
"""What desks can do that is no option of a job."""


def commands(text: str) -> list[list[str]]:
    """Every `andon …` in its code blocks."""
    lines = re.findall(r"^ {4}(?:sudo )?andon (.*)$", text, re.MULTILINE)
    return [line.partition("  #")[0].partition(" # ")[0].split() for line in lines]


def test_the_page_shows_the_whole_session() -> None:
    typed = {words[0] for words in commands(PAGE)}
    assert typed >= {"submit", "jobs", "why", "logs", "cancel", "nodes", "run", "setup"}


def test_the_line_about_a_silent_controller_is_the_one_that_is_printed() -> None:
    page = ClusterPage("slurm", at=100.0).failed("Slurm's controller does not answer", 110.0)
    line = page_line(page, 112.0, "12:03") or ""
    (shown,) = re.findall(r"`(Slurm's controller [^`]+)`", PAGE)
    assert shown in line


def test_the_files_on_the_nodes_are_named() -> None:
    assert all(f"`{name}`" in PAGE for name in (PROLOG, EPILOG, LINES))


def test_the_table_of_what_each_desk_takes_is_made_from_what_it_is_able_to_do() -> None:
    assert ServerDesk.able == SeenJobs.able, "the two sides of a server"
    desks = (
        QueueDesk.able, SlurmCluster.able, KubernetesCluster.able, RayCluster.able, SshQueue.able,
        ServerDesk.able,
    )  # fmt: skip
    shown = {able: words for able, (words, _) in NEEDS.items()} | BESIDE_OPTIONS
    assert shown.keys() == set(Able), "everything that a desk may be able to do has a row"
    table = "| | this machine | Slurm | Kubernetes | Ray | hosts (`ssh:`) | a server (`--url`) |\n"
    table += "|---|---|---|---|---|---|---|\n"
    for able, words in shown.items():
        cells = ["yes" if able in one else "–" for one in desks]
        table += f"| {words} | {' | '.join(cells)} |\n"
    assert table in PAGE, table
