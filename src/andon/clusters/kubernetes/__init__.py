"""Jobs on Kubernetes: its scheduler decides, andon prefers the nodes whose GPUs are idle."""

from andon.clusters.kubernetes.cluster import KubernetesCluster as KubernetesCluster
