"""Cgroup paths as they are found in the world, and to what their processes belong."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.host.rules.attribution import (
    Container,
    Pod,
    ProcessMembership,
    RuntimeNames,
    SlurmStep,
    belongs,
    describe,
    is_session,
    ray_job,
    slurm_from_environment,
    unescape,
)
from tests.support.rows import rows

ID = "3f2a9c1b04de7c5a8f6e1d2b3c4a5968778695a4b3c2d1e0f9e8d7c6b5a49382"
INNER = "9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961"
UID = "2c48913c-b29f-11e7-9350-020968147796"
UNDER = UID.replace("-", "_")
STATIC = "3d6beaa3004913efb68ce073d73494b0"  # a static pod's uid is the hash of its file
USER = "/user.slice/user-1000.slice/user@1000.service"


class Row(NamedTuple):
    """One line of /proc/<pid>/cgroup, and what it means: `describe` and `job`."""

    line: str
    container: str | None = None
    job: str | None = None


# Seen on a Debian 12 machine (cgroups in hybrid mode, no systemd) with the real programs:
# Docker 20.10 (also with --cgroup-parent), Podman 4.3 over runc, LXC 5.0, and Slurm 22.05 with
# proctrack/cgroup, which Debian builds for several slurmd on a host: slurm_<node>.
SEEN = [
    Row(f"9:name=systemd:/docker/{ID}", "docker:3f2a9c1b04de"),
    Row(f"0::/docker/{ID}", "docker:3f2a9c1b04de"),
    Row(f"6:freezer:/slurm/uid_1000/job_42/step_0/{ID}", "container:3f2a9c1b04de", "slurm:42.0"),
    Row(f"8:pids:/libpod_parent/libpod-{ID}", "podman:3f2a9c1b04de"),
    Row("0::/lxc.payload.box1", "lxc:box1"),
    Row("9:name=systemd:/lxc.monitor.box1"),
    Row("6:freezer:/slurm_n1/uid_0/job_1/step_0", None, "slurm:1.0"),
    Row("6:freezer:/slurm_n1/uid_0/job_2/step_batch", None, "slurm:2.batch"),
    Row("6:freezer:/slurm_n1/uid_0/job_2", None, "slurm:2"),
    Row("4:memory:/process_api/55bd70e46ba61cbf26429fcbf445e8ee"),
    Row("0::/"),
]

# Docker and its neighbours. The systemd driver: docs.docker.com, "Runtime metrics"; rootless
# below user@: Netdata's and Green Metrics' paths for it; ECS: github.com/DataDog/dd-trace-php,
# ContainerInfoTest; Fargate 1.4: AWS's X-Ray and OpenTelemetry detectors.
DOCKER = [
    Row(f"0::/system.slice/docker-{ID}.scope", "docker:3f2a9c1b04de"),
    Row(f"3:cpu,cpuacct:/system.slice/docker-{ID}.scope", "docker:3f2a9c1b04de"),
    Row(f"0::/system.slice/docker-{ID}.scope/init", "docker:3f2a9c1b04de"),
    Row(f"13:name=systemd:/docker-ce/docker/{ID}", "docker:3f2a9c1b04de"),
    Row(f"0::{USER}/user.slice/docker-{ID}.scope", "docker:3f2a9c1b04de"),
    Row(f"0::{USER}/app.slice/docker.service/docker/{ID}", "docker:3f2a9c1b04de"),
    Row(f"0::/../docker-{ID}.scope", "docker:3f2a9c1b04de"),
    Row(f"1:name=systemd:/system.slice/system.slice:docker:{ID}", "docker:3f2a9c1b04de"),
    Row(f"5:devices:/docker/{ID}/docker/{INNER}", "docker:9bca8d63d5fa"),
    Row(f"0::/docker/{ID} (deleted)", "docker:3f2a9c1b04de"),
    Row(f"9:perf_event:/ecs/classic/5a0d5ceddf6c44c1928d367a815d890f/{ID}", "ecs:3f2a9c1b04de"),
    Row(f"7:cpu:/ecs/55091c13-b8cf-4801-b527-f4601742204d/{ID}", "ecs:3f2a9c1b04de"),
    Row(
        "1:cpu:/ecs/34dc0b5e626f2c5c4c5170e34b10e765-1234567890",
        "ecs:34dc0b5e626f2c5c4c5170e34b10e765-1234567890",
    ),
    Row(f"10:net_prio:/{ID}", "container:3f2a9c1b04de"),  # neuvector, TestDockerIDDebian
    Row("0::/system.slice/docker.service"),
    Row("0::/system.slice/containerd.service"),
]

# containerd by itself: nerdctl's container paths (its docs, and the tests of several agents),
# /default is containerd's namespace with the cgroupfs driver.
CONTAINERD = [
    Row(f"0::/system.slice/nerdctl-{ID}.scope", "nerdctl:3f2a9c1b04de"),
    Row(f"0::{USER}/user.slice/nerdctl-{ID}.scope", "nerdctl:3f2a9c1b04de"),
    Row(f"12:pids:/default/{ID}", "containerd:3f2a9c1b04de"),
    Row(f"0::/k8s.io/{ID}", "containerd:3f2a9c1b04de"),
    Row(f"0::/system.slice/cri-containerd-{ID}.scope", "containerd:3f2a9c1b04de"),  # cri #290
]

# Podman: containers/podman issues #6400 (pods), #20910 (no cgroup), #14851 (sessions), and
# --cgroups=split, which keeps a container below its own unit.
PODMAN = [
    Row(f"0::/machine.slice/libpod-{ID}.scope", "podman:3f2a9c1b04de"),
    Row(f"0::/machine.slice/libpod-{ID}.scope/container", "podman:3f2a9c1b04de"),
    Row(f"0::{USER}/user.slice/libpod-{ID}.scope/container", "podman:3f2a9c1b04de"),
    Row(
        f"0::{USER}/user.slice/user-libpod_pod_{INNER}.slice/libpod-{ID}.scope/container",
        "podman:3f2a9c1b04de",
    ),
    Row(f"0::/machine.slice/libpod-conmon-{ID}.scope"),
    Row(
        f"0::/system.slice/trainer.service/libpod-payload-{ID}",
        "podman:3f2a9c1b04de",
        "unit:trainer.service",
    ),
    Row(f"0::{USER}/user.slice/podman-6696.scope", None, "unit:podman-6696.scope"),
]

# LXC: lxc/lxc issues #2606 and #2782 (payload and monitor), LXD's and Proxmox's older /lxc.
LXC = [
    Row("11:devices:/lxc/210", "lxc:210"),
    Row("1:name=systemd:/lxc/web/init.scope", "lxc:web"),
    Row("1:name=systemd:/lxc.payload/web", "lxc:web"),
    Row(
        "0::/lxc.payload.web/system.slice/ssh.service",
        "lxc:web",
        "unit:ssh.service",
    ),
    Row(f"0::/lxc.payload.web/system.slice/docker-{ID}.scope", "docker:3f2a9c1b04de"),
    Row("0::/user.slice/user-1000.slice/session-2.scope/lxc.payload.mine", "lxc:mine", "session:2"),
]

# systemd-machined: systemd issues #5490 and #18104 (payload), libvirt's machine-qemu scopes.
MACHINES = [
    Row("0::/machine.slice/machine-rawhide.scope", "nspawn:rawhide"),
    Row(
        r"0::/machine.slice/machine-my\x2dbox.scope/payload/system.slice/jupyter.service",
        "nspawn:my-box",
        "unit:jupyter.service",
    ),
    Row(r"0::/machine.slice/systemd-nspawn@my\x2dbox.service/payload", "nspawn:my-box"),
    Row(r"0::/machine.slice/machine-qemu\x2d1\x2dwin11.scope/libvirt/emulator", "qemu:win11"),
    Row(
        r"3:cpuacct:/machine.slice/machine-qemu\x2d1\x2dinstance\x2d00000001.scope",
        "qemu:instance-00000001",
    ),
    Row(f"0::{USER}/user.slice/apptainer-2017830.scope", "apptainer:2017830"),
]

# Kubernetes: the kubelet's two drivers (kubernetes.io, "Node resource managers"), k3s, kind
# (issue #3947: kubelet.slice), minikube (#11280: in Docker), containerd's colons where one
# driver was configured and the other used, and the relative paths of a cgroup namespace.
KUBERNETES = [
    Row(f"11:devices:/kubepods/besteffort/pod{UID}/{ID}", f"k8s:{UID}/3f2a9c1b04de"),
    Row(f"0::/kubepods/burstable/pod{UID}/{ID}", f"k8s:{UID}/3f2a9c1b04de"),
    Row(f"4:cpu:/kubepods/pod{UID}/{ID}", f"k8s:{UID}/3f2a9c1b04de"),
    Row(f"9:pids:/kubepods/besteffort/pod{STATIC}/{ID}", f"k8s:{STATIC}/3f2a9c1b04de"),
    Row(
        "0::/kubepods.slice/kubepods-burstable.slice/"
        f"kubepods-burstable-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        f"k8s:{UID}/3f2a9c1b04de",
    ),
    Row(
        f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/crio-{ID}.scope",
        f"k8s:{UID}/3f2a9c1b04de",
    ),
    Row(
        f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/crio-{ID}.scope/container",
        f"k8s:{UID}/3f2a9c1b04de",
    ),
    Row(
        f"8:cpuset:/kubepods.slice/kubepods-pod{UNDER}.slice/docker-{ID}.scope",
        f"k8s:{UID}/3f2a9c1b04de",
    ),
    Row(
        f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/crio-conmon-{ID}.scope",
        f"k8s:{UID}",
    ),
    Row(
        "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
        f"kubelet-kubepods-besteffort-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        f"k8s:{UID}/3f2a9c1b04de",
    ),
    Row(
        f"0::/system.slice/docker-{INNER}.scope/kubelet.slice/kubelet-kubepods.slice/"
        f"kubelet-kubepods-besteffort-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        f"k8s:{UID}/3f2a9c1b04de",
    ),
    Row(
        "5:memory:/system.slice/containerd.service/"
        f"kubepods-besteffort-pod{UNDER}.slice:cri-containerd:{ID}",
        f"k8s:{UID}/3f2a9c1b04de",
    ),
    Row(f"12:hugetlb:/kubepods-pod{UNDER}.slice:cri-containerd:{ID}", f"k8s:{UID}/3f2a9c1b04de"),
    Row(f"1:name=systemd:/../../pod{UID}/{ID}", f"k8s:{UID}/3f2a9c1b04de"),
    Row("0::/kubepods.slice/kubepods-burstable.slice"),
]

# Slurm: slurm.schedmd.com/cgroups.html and cgroup_v2.html; nodename_slurmstepd.scope is
# treydock/cgroup_exporter #30; step_interactive and task_0 are from NordicHPC/sonar's tests.
SLURM = [
    Row("10:devices:/slurm/uid_1000/job_42/step_0/task_1", None, "slurm:42.0"),
    Row("10:devices:/slurm/uid_2101171/job_280678/step_interactive/task_0", None,
        "slurm:280678.interactive"),
    Row("4:memory:/slurm/uid_1000/job_42/step_batch", None, "slurm:42.batch"),
    Row("4:memory:/slurm/uid_1000/job_42/step_extern/task_0", None, "slurm:42.extern"),
    Row("0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0", None, "slurm:42.0"),
    Row("0::/system.slice/slurmstepd.scope/job_42/step_batch/user/task_special", None,
        "slurm:42.batch"),
    Row("0::/system.slice/slurmstepd.scope/job_42/step_extern/user", None, "slurm:42.extern"),
    Row("0::/system.slice/cn7_slurmstepd.scope/job_9/step_0/user/task_3", None, "slurm:9.0"),
    Row("0::/system.slice/slurmstepd.scope/system"),
    Row("0::/system.slice/slurmd.service"),
    Row(f"0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0/docker/{ID}",
        "docker:3f2a9c1b04de", "slurm:42.0"),
    Row(f"0::/docker/{ID}/slurm/uid_0/job_7/step_0", "docker:3f2a9c1b04de", "slurm:7.0"),
    Row("0::/slurm/uid_1000/job_bad/step_0"),
]  # fmt: skip

# systemd: user@.service(5), systemd.special(7), DESKTOP_ENVIRONMENTS.md (app-…), systemd-run(1),
# and the escapes of systemd-escape(1).
SYSTEMD = [
    Row("0::/user.slice/user-1000.slice/session-3.scope", None, "session:3"),
    Row("1:name=systemd:/user.slice/user-0.slice/session-c14.scope", None, "session:c14"),
    Row(f"0::{USER}/app.slice/jupyter.service", None, "unit:jupyter.service"),
    Row(f"0::{USER}/app.slice/app-gnome-org.blender.Blender-5177.scope", None,
        "unit:app-gnome-org.blender.Blender-5177.scope"),
    Row(f"0::{USER}/app.slice/vte-spawn-f22f14d2.scope", None, "session:vte-spawn-f22f14d2"),
    Row(f"0::{USER}/tmux-spawn-033dff48.scope", None, "session:tmux-spawn-033dff48"),
    Row(f"0::{USER}/session.slice/org.gnome.Shell@wayland.service", None,
        "unit:org.gnome.Shell@wayland.service"),
    Row(f"0::{USER}/app.slice/dbus-:1.2-org.gnome.Ptyxis@0.service", None,
        "unit:dbus-:1.2-org.gnome.Ptyxis@0.service"),
    Row(f"0::{USER}/init.scope"),
    Row("0::/system.slice/jupyter.service", None, "unit:jupyter.service"),
    Row(r"0::/system.slice/system-vllm.slice/vllm@llama\x2d70b.service", None,
        "unit:vllm@llama-70b.service"),
    Row("0::/system.slice/systemd-udevd.service/udev", None, "unit:systemd-udevd.service"),
    Row("0::/system.slice/run-u123.service", None, "unit:run-u123.service"),
    Row("0::/init.scope"),
    Row("0::/system.slice"),
    Row("0::/nomad.slice/share.slice/4744f0ea-7616-ab3a-a420-8e25056e3861.train.scope", None,
        "unit:4744f0ea-7616-ab3a-a420-8e25056e3861.train.scope"),
]  # fmt: skip

TABLE = [*SEEN, *DOCKER, *CONTAINERD, *PODMAN, *LXC, *MACHINES, *KUBERNETES, *SLURM, *SYSTEMD]


@rows("row", TABLE, ids=lambda row: row.line.replace(ID, "ID"))
def test_a_line_is_read_as_what_it_is(row: Row) -> None:
    found = belongs(row.line + "\n")
    assert (describe(found), found.job) == (row.container, row.job)


def test_the_table_is_long_and_says_nothing_twice() -> None:
    assert len({row.line for row in TABLE}) == len(TABLE) >= 60


def test_the_parts_of_a_slurm_job_are_told_apart() -> None:
    found = belongs("10:devices:/slurm/uid_1000/job_42/step_0/task_1\n")
    assert found == ProcessMembership(slurm=SlurmStep("42", "0", "1"))


@pytest.mark.parametrize(
    ("path", "qos"),
    [
        (f"/kubepods/besteffort/pod{UID}/{ID}", "besteffort"),
        (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice",
         "burstable"),
        (f"/kubepods.slice/kubepods-pod{UNDER}.slice/crio-{ID}.scope", "guaranteed"),
    ],
)  # fmt: skip
def test_a_pod_has_its_uid_with_dashes_and_its_quality_of_service(path: str, qos: str) -> None:
    assert belongs(f"0::{path}\n").pod == Pod(UID, qos)


def test_the_runtime_of_a_container_is_told() -> None:
    pod = f"0::/kubepods.slice/kubepods-pod{UNDER}.slice"
    assert belongs(f"{pod}/crio-{ID}.scope").container == Container("cri-o", ID)
    assert belongs(f"{pod}/cri-containerd-{ID}.scope").container == Container("containerd", ID)
    nested = f"0::/docker/{INNER}/kubepods/pod{UID}/{ID}"
    assert belongs(nested).container == Container("container", ID), "not the outer one's runtime"


def test_slurm_may_stand_in_one_hierarchy_alone() -> None:
    """As Slurm with proctrack/cgroup and without task/cgroup was seen to do."""
    text = "9:name=systemd:/\n6:freezer:/slurm_n1/uid_0/job_1/step_0\n4:memory:/x\n0::/\n"
    assert belongs(text) == ProcessMembership(slurm=SlurmStep("1", "0"))


def test_the_hierarchy_that_knows_more_of_a_step_counts() -> None:
    text = "6:freezer:/slurm/uid_0/job_1/step_0\n4:memory:/slurm/uid_0/job_1/step_0/task_2\n"
    assert belongs(text).slurm == SlurmStep("1", "0", "2")


def test_systemds_own_hierarchy_names_the_unit() -> None:
    text = (
        "12:pids:/system.slice/kubelet.service\n"
        "4:memory:/user.slice/user-1000.slice/session-9.scope\n"
        "1:name=systemd:/system.slice/jupyter.service\n"
        "0::/system.slice/jupyter.service\n"
    )
    assert belongs(text) == ProcessMembership(unit="jupyter.service")


def test_a_hybrid_host_shows_a_container_once() -> None:
    lines = [f"{n}:{name}:/docker/{ID}" for n, name in enumerate(("", "cpu", "pids"))]
    assert belongs("\n".join(lines)) == ProcessMembership(container=Container("docker", ID))


def test_names_stand_in_for_ids() -> None:
    docker = ProcessMembership(container=Container("docker", ID))
    assert describe(docker, RuntimeNames(name="trainer")) == "docker:trainer"
    pod = ProcessMembership(container=Container("containerd", ID), pod=Pod(UID))
    full = RuntimeNames("k8s_main_trainer-0", "ml", "trainer-0", "main")
    assert describe(pod, full) == "k8s:ml/trainer-0/main"
    assert describe(pod, RuntimeNames(name="x")) == f"k8s:{UID}/3f2a9c1b04de"
    assert describe(ProcessMembership(), full) is None


def test_a_name_cannot_move_the_cursor() -> None:
    assert belongs(r"0::/system.slice/a\x1b[2J.service").job == r"unit:a\x1b[2J.service"
    assert describe(belongs("0::/lxc/a\x1b[2J")) == r"lxc:a\x1b[2J"


def test_escapes_are_octets_of_a_text() -> None:
    assert unescape(r"caf\xc3\xa9\x2dau") == "café-au"
    assert unescape(r"a\xff") == "aÿ"


def test_a_session_is_no_job_that_anybody_submitted() -> None:
    assert is_session("session:3")
    assert not is_session("slurm:3")
    assert not is_session(None)


@pytest.mark.parametrize(
    ("variables", "step"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "n1"}, "7.0"),
        ({"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}, "7.batch"),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "4294967290", "SLURMD_NODENAME": "n"},
         "7.interactive"),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "x", "SLURMD_NODENAME": "n1"}, "7"),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, None),  # salloc's shell on a login node
        ({"SLURM_JOB_ID": "x", "SLURMD_NODENAME": "n1"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_slurm_is_known_by_its_variables_too(variables: dict[str, str], step: str | None) -> None:
    found = slurm_from_environment(variables)
    assert (None if found is None else str(found)) == step


@pytest.mark.parametrize(
    ("title", "variables", "job"),
    [
        ("ray::embed", {"RAY_JOB_ID": "02000000"}, "02000000.embed"),
        ("ray::embed", {"RAY_JOB_ID": "ffffffff"}, "embed"),  # started before its job
        ("ray::embed", {"RAY_JOB_ID": "$(id)"}, "embed"),
        ("ray::IDLE", {}, "IDLE"),  # another user's: its environment is hidden
        ("ray::", {}, None),
        ("ray::a\x1b[2J", {}, r"a\x1b[2J"),
        ("raylet", {"RAY_JOB_ID": "02000000"}, None),
        ("python", {"RAY_JOB_CONFIG_JSON_ENV_VAR": '{"job_submission_id": "andon-k3f"}'},
         "andon-k3f"),
        ("python", {"RAY_JOB_CONFIG_JSON_ENV_VAR": "{}"}, None),
    ],
)  # fmt: skip
def test_ray_is_known_by_titles_and_variables(
    title: str, variables: dict[str, str], job: str | None
) -> None:
    assert ray_job(title, variables) == job


PIECES = st.sampled_from(
    ["/", ":", "0::/", "\n", "docker", "docker-", ID, ".scope", ".slice", "pod", UID, "kubepods",
     "slurm", "job_1", "step_0", "lxc", "lxc.payload.", "machine-", "session-", "..", r"\x2d",
     "systemd-nspawn@", ".service", " (deleted)", "ecs", "libpod-conmon-"]
)  # fmt: skip


@given(st.text() | st.lists(PIECES | st.text(max_size=3)).map("".join))
def test_no_text_raises_and_every_answer_can_be_shown(text: str) -> None:
    found = belongs(text)
    for shown in (describe(found), found.job):
        assert shown is None or shown.isprintable()


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "path",
    [
        "/" + "conmon-" * 20_000,
        "/" + "pod-" * 40_000,
        "/a.slice:" * 20_000,
        "/machine-" + "a.scope" * 20_000,
        "/docker-" * 20_000,
        "/a" * 80_000,
        "/" + f"{'a' * 64}/" * 2_000,
    ],
)
def test_the_cost_of_a_hostile_path_grows_no_faster_than_the_path(path: str) -> None:
    """Whoever is given a cgroup may make others below it, and name them."""
    belongs(f"0::{path}\n")


def test_a_name_that_the_kernel_would_not_allow_says_nothing() -> None:
    assert belongs(f"0::/system.slice/{'a' * 300}.service").unit is None
    assert belongs(f"0::/system.slice/{'a' * 200}.service").unit == f"{'a' * 200}.service"
