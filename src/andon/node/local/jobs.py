"""The jobs of this user on this machine, and on the clusters of the settings."""

from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.desk import Desks
from andon.jobs.queue_desk import QueueDesk
from andon.node.local.context import Here


def local_desks(here: Here) -> Desks:
    """Returns the queue, which is kept open, and the clusters as one desk."""
    clusters = here.parts.configured_clusters(here.settings)
    named: dict[str, ClusterDesk] = {one.name: one for one in clusters}
    return Desks(QueueDesk(), named.get, lambda: clusters)
