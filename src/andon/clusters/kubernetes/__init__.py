"""Jobs on Kubernetes, whose scheduler decides: andon adds what its nodes really do."""

from andon.clusters.kubernetes.cluster import KubernetesCluster as KubernetesCluster
