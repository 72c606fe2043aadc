"""A Slurm for the modules that need one."""

from tests.integration.slurm import login as login
from tests.integration.slurm import slurm as slurm
