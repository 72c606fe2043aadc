"""The jobs of this user on this machine, and on the clusters of the settings."""

from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.desk import Desks
from andon.jobs.queue_desk import QueueDesk
from andon.node.local.context import LocalContext


def local_desks(context: LocalContext) -> Desks:
    """Returns the queue, which stays open, and the clusters as one desk."""
    clusters = context.parts.configured_clusters(context.settings)
    named: dict[str, ClusterDesk] = {one.name: one for one in clusters}
    return Desks(QueueDesk(), named.get, lambda: clusters)
