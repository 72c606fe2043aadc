"""Jobs on Slurm, through its own commands: they know the site's configuration and credentials."""

from andon.clusters.slurm.cluster import SlurmCluster as SlurmCluster
