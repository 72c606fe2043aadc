"""The jobs that a server shows."""

from msgspec import Struct

from andon.jobs.rules.views import JobListing
from andon.model.codec import Name, Text, Wrong, read
from andon.model.job.facts import JobView
from andon.node.server import Server

SHOWN_JOBS = 200


class _Cluster(Struct, frozen=True):
    name: Name
    trouble: Text | None = None


class _Page(Struct, frozen=True):
    """The fields of a server's page that a list shows."""

    jobs: list[JobView]
    paused: bool
    clusters: list[_Cluster] = []
    note: Text | None = None


class RemoteJobs:
    """A server's jobs; fields hidden from this user are absent."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def page(self) -> JobListing:
        try:
            found = read(_Page, self._server.get("/api/jobs", limit=SHOWN_JOBS))
        except Wrong as exc:
            raise self._server.of_another_version(f"a job is not as expected: {exc}") from exc
        notes = [f"{one.name}: {one.trouble}" for one in found.clusters if one.trouble]
        notes += [found.note] if found.note else []
        return JobListing.of(found.jobs, found.paused, notes)
