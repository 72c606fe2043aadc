"""Jobs on machines that are reached over SSH: each has a queue of andon's own, and no daemon."""

from andon.clusters.ssh.cluster import SshQueue as SshQueue
