"""A queue with one job that waits, for servers in tests."""

from pathlib import Path

from andon.jobs.folder import JobsFolder
from andon.jobs.queue import Queue
from andon.jobs.queue_desk import QueueDesk
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import JobSpec
from andon.node.watched.jobs import ServedJobs
from andon.node.watched.users import SharedUsers

AT = 1_790_000_000.0


def one_job(folder: Path, users: SharedUsers | None = None, name: str = "train") -> ServedJobs:
    """Shown by a server of root, which accepts none over the network."""
    folder.mkdir(exist_ok=True)
    if not (folder / "1").exists():
        JobsFolder(folder).submit([JobSpec(0, name, ("true",), "/", DeviceRequest(), AT)])
    return ServedJobs(
        QueueDesk(lambda: Queue(JobsFolder(folder)), "root", lambda _: None),
        lambda: "a server run by root accepts no jobs",
        lambda document: [],
        users,
    )
