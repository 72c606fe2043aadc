"""Jobs on Ray, through its dashboard: plain HTTP, and no package of Ray here."""

from andon.clusters.ray.cluster import RayCluster as RayCluster
