"""A Slurm that keeps accounts, in a database of its own: known when Slurm has forgotten."""

from collections.abc import Iterator

import pytest

from tests.conftest import need
from tests.integration.parts import need_root, wait_until
from tests.integration.slurm import Login, Slurm, slurm_cluster

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    need_root()
    need("slurmctld", "slurmd", "sbatch", "munged", "slurmdbd", "mariadbd", "mariadb-install-db")
    with slurm_cluster(tmp_path_factory.mktemp("slurm"), nodes=1, gpus=2, accounts=True) as found:
        yield found


def test_a_job_that_slurm_forgot_is_known_by_the_accounts(login: Login) -> None:
    plain = login.slurm("sbatch", "--parsable", "--gpus-per-node=1", "--output=/dev/null",
                        "--job-name=other", "--wrap=exit 3")  # fmt: skip
    wait_until(lambda: "FAILED" in login.slurm("sacct", "-X", "-n", "-j", plain), "its end")
    login.forget(f"slurm:{plain}")
    login.submit("--", "true")  # so that the cluster is asked
    wait_until(lambda: f"slurm:{plain}" in login.jobs(), "it in the list")
    found = login.jobs()[f"slurm:{plain}"]
    assert (found["state"], found["exit_code"], found["gpus"]) == ("failed", 3, "1")
    assert "exit code 3" in login.andon("why", f"slurm:{plain}")


def test_accounts_that_go_away_cost_no_list(login: Login) -> None:
    job = login.submit("--", "sleep", "600")
    wait_until(lambda: login.jobs()[job]["state"] == "running", "the job")
    stopped = login.slurm.daemons["slurmdbd"]
    stopped.terminate()
    stopped.wait(60)
    assert login.jobs()[job]["state"] == "running"
