"""The jobs that a server shows."""

from collections.abc import Sequence

from andon.jobs.rules.views import in_list_order
from andon.model.codec import Wrong, read
from andon.model.job import JobView
from andon.node.server import Server

SHOWN_JOBS = 200


class RemoteJobs:
    """A server's jobs; fields hidden from this user are absent."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def views(self) -> Sequence[JobView]:
        page = self._server.get("/api/jobs", limit=SHOWN_JOBS)
        try:
            return in_list_order(read(list[JobView], page.get("jobs")))
        except Wrong as exc:
            raise self._server.of_another_version(f"a job is not as expected: {exc}") from exc
