"""The jobs of a host over SSH."""

from andon.errors import Gone
from andon.model.job.desk import JobName
from andon.model.job.facts import JobView
from andon.node.remote.jobs import ServerDesk


class SshJobs(ServerDesk):
    """Jobs as `andon jobs` lists them there."""

    def _exact(self, job: JobName) -> JobView:
        for view in self._known():
            if str(job) in (view.label, str(view.number)):
                return view
        raise Gone(f"there is no job {str(job)[:40]}", hint="to list them: andon jobs --all")
