"""Containers: the arguments with which they are made, and what an engine's answers mean."""

import json
from typing import Any

import pytest

from andon.engines.rules.answers import (
    ended,
    engine_error,
    engine_facts,
    first_line,
    first_pid,
    is_missing_image,
    program_error,
    server_errors,
    signal_to_send,
)
from andon.errors import Denied, Gone, Invalid, Unavailable
from andon.model.device import Device
from andon.model.execution import ContainerMount, ContainerOptions, Submitter, WorkEnd, WorkOrder
from andon.model.job.pull_policy import PullPolicy
from andon.model.shapes import to_json
from andon.work.containers.rules.arguments import (
    DOCKER,
    PODMAN,
    EngineFacts,
    create_arguments,
    without_files,
)
from andon.work.containers.rules.options import (
    options_from_json,
    parse_mount,
    refuse_options,
)

GPU = "GPU-8f1c1c52-5d0e-4f3a-9c37-2f6f0a1d4e75"
MIG = "MIG-1d7f1c52-5d0e-4f3a-9c37-2f6f0a1d4e75"
ENGINE, PODMAN_ENGINE = EngineFacts(DOCKER), EngineFacts(PODMAN)


def device(uuid: str, vendor: str = "nvidia") -> Device:
    return Device(uuid, 0, vendor, "a GPU", "0000:1b:00.0")


def order(*uuids: str, **more: Any) -> WorkOrder:
    values: dict[str, Any] = {"devices": tuple(map(device, uuids))}
    values["submitter"] = Submitter(1000, 1001)
    return WorkOrder(("python", "train.py"), "/home/alice/a, b", "k7qm2", **(values | more))


def arguments(
    wanted: WorkOrder, engine: EngineFacts = ENGINE, options: ContainerOptions | None = None
) -> list[str]:
    return create_arguments(wanted, options or ContainerOptions("img"), engine)


def test_devices_are_requested_by_full_uuid_and_never_by_count() -> None:
    amd = device("AMD-1", "amd")
    files = {"AMD-1": "/dev/dri/renderD128"}
    rows: list[tuple[WorkOrder, EngineFacts, list[str]]] = [
        (order(GPU), ENGINE, [f'--gpus="device={GPU}"']),
        (order(GPU, MIG), ENGINE, [f'--gpus="device={GPU},{MIG}"']),
        (
            order(GPU, MIG),
            PODMAN_ENGINE,
            [f"--device=nvidia.com/gpu={GPU}", f"--device=nvidia.com/gpu={MIG}"],
        ),
        (
            order(devices=(amd,), device_files=files),
            ENGINE,
            ["--device=/dev/kfd", "--device=/dev/dri/renderD128"],
        ),
        (
            order(devices=(device("I-1", "intel"),), device_files={"I-1": "/dev/dri/renderD129"}),
            PODMAN_ENGINE,
            ["--device=/dev/dri/renderD129"],
        ),
        (order(devices=(device("S-1", "sim"),)), ENGINE, []),
        (order(), ENGINE, []),
    ]
    wrong = []
    for wanted, engine, expected in rows:
        made = arguments(wanted, engine)
        found = [word for word in made if word.startswith(("--gpus", "--device"))]
        if found != expected or any("count" in word or "VISIBLE" in word for word in made):
            wrong.append((expected, made))
    assert wrong == []
    assert without_files(order(devices=(amd,))) == (amd,)


def test_it_runs_as_the_submitter_where_the_engine_is_roots() -> None:
    groups = order(submitter=Submitter(1000, 1001, (44, 109)))
    rows = [
        (order(), ENGINE, None, ["--user=1000:1001"]),
        (groups, ENGINE, None, ["--user=1000:1001", "--group-add=44", "--group-add=109"]),
        (groups, EngineFacts(DOCKER, rootless=True), None, ["--user=0:0"]),
        (groups, EngineFacts(PODMAN, rootless=True), None, ["--user=0:0"]),
        (groups, ENGINE, "worker", ["--user=worker"]),
    ]
    wrong = []
    for wanted, engine, user, expected in rows:
        made = arguments(wanted, engine, ContainerOptions("img", user=user))
        found = [word for word in made if word.startswith(("--user", "--group-add"))]
        if found != expected:
            wrong.append((expected, found))
    assert wrong == []


def test_the_folder_home_and_shared_memory_are_given() -> None:
    options = ContainerOptions("img", (ContainerMount("/data", "/d", readonly=True),), ("--ipc=x",))
    wanted = order(home="/tmp/andon-home-1", shm_bytes=5, environment={"B": "2", "A": "1"})
    made = arguments(wanted, ENGINE, options)
    assert made == [
        "--label=andon.lease=k7qm2",
        "--label=andon.uid=1000",
        "--user=1000:1001",
        "--env=HOME=/tmp/andon-home",
        '--mount=type=bind,"source=/home/alice/a, b","target=/home/alice/a, b"',
        "--mount=type=bind,source=/data,target=/d,readonly",
        "--mount=type=bind,source=/tmp/andon-home-1,target=/tmp/andon-home",
        "--workdir=/home/alice/a, b",
        "--shm-size=5",
        "--log-driver=json-file",
        "--env=A=1",
        "--env=B=2",
        "--ipc=x",
        "img",
        "python",
        "train.py",
    ]
    assert {"--interactive", "--tty"} <= set(arguments(order(stdin=True, terminal=True)))


def test_one_target_is_mounted_once_the_last_word_counts() -> None:
    options = ContainerOptions("img", (ContainerMount("/other", "/home/alice/a, b", False),))
    mounts = [word for word in arguments(order(), ENGINE, options) if "--mount" in word]
    assert mounts == ['--mount=type=bind,source=/other,"target=/home/alice/a, b"']


def test_mounts_as_typed() -> None:
    rows = [
        ("/data", ContainerMount("/data", "/data", False)),
        ("/data:/d", ContainerMount("/data", "/d", False)),
        ("/data:/d:ro", ContainerMount("/data", "/d", True)),
        ("/data:/d:rw", ContainerMount("/data", "/d", False)),
        ("/data:ro", ContainerMount("/data", "/data", True)),
        ("sub/../x", ContainerMount("/here/x", "/here/x", False)),
        ("./x:/y", ContainerMount("/here/x", "/y", False)),
    ]
    found = [(text, parse_mount(text, "/here")) for text, _ in rows]
    assert found == rows
    for text in ("a:b:c:d", "a:b:c", "", ":", "a:relative", "a::ro"):
        with pytest.raises(Invalid, match="--mount"):
            parse_mount(text, "/here")


def test_options_that_contradict_the_lease_are_refused() -> None:
    refuse_options(["--network=host", "--env=A=1", "-v=/a:/b", "--init"])
    for option in (
        "--gpus=all", "--device=/dev/nvidia0", "--rm", "-d", "-t", "network=host",
        "--env=CUDA_VISIBLE_DEVICES=0", "-e=NVIDIA_VISIBLE_DEVICES=all", "--label=andon.lease=x",
    ):  # fmt: skip
        with pytest.raises(Invalid):
            refuse_options([option])


def test_what_an_engine_says_becomes_a_sentence_with_a_remedy() -> None:
    rows: list[tuple[str, type[Exception], str]] = [
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///x",
            Denied,
            "no permission",
        ),
        ("Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
         Unavailable, "the Docker engine is not running"),
        ('Error response from daemon: could not select device driver "" with capabilities: [[gpu]]',
         Unavailable, "cannot give GPUs to containers"),
        ("setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=GPU-1", Unavailable,
         "does not know these GPUs"),
        ("invalid mount config for type \"bind\": bind source path does not exist: /nowhere", Gone,
         "there is no folder /nowhere"),
        ("unknown flag: --frob\nSee 'docker create --help'.", Invalid, "no option --frob"),
        ("unable to find user bob: no matching entries in passwd file", Gone, "has no user bob"),
        ("Error response from daemon: something new\nmore", Unavailable, "docker: something new"),
        ("", Unavailable, "without a message"),
    ]  # fmt: skip
    wrong = []
    for said, kind, words in rows:
        error = engine_error("docker", said)
        if not isinstance(error, kind) or words not in error.reason:
            wrong.append((said, error.reason))
    assert wrong == []
    assert is_missing_image("Error: No such image: nope")
    assert is_missing_image("Error: nope: image not known")
    assert not is_missing_image("Cannot connect to the Docker daemon")
    assert first_line("\n docker: Error response\n") == "Error response"


def test_a_program_that_cannot_run_in_its_image_is_told_from_other_failures() -> None:
    rows = [
        ('exec: "nosuch": executable file not found in $PATH: unknown', 127, "command not found"),
        ('exec: "/x/y": stat /x/y: no such file or directory: unknown', 127, "command not found"),
        ('exec: "/tmp": permission denied: unknown', 126, "not executable"),
        ("exec /bin/x: exec format error", 126, "another processor"),
        ('could not select device driver "" with capabilities: [[gpu]]', None, ""),
        ("unresolvable CDI devices x: no such file or directory", None, ""),
        ("network none not found", None, ""),
    ]
    wrong = []
    for said, code, words in rows:
        found = program_error("nosuch", "img", said)
        if (found is None) != (code is None) or (
            found is not None and (found[1] != code or words not in found[0])
        ):
            wrong.append((said, found))
    assert wrong == []


def test_engines_are_known_by_what_they_say() -> None:
    rows = [
        ({"SecurityOptions": ["name=seccomp"]}, EngineFacts(DOCKER)),
        ({"SecurityOptions": ["name=rootless", "name=cgroupns"]}, EngineFacts(DOCKER, True)),
        ({"SecurityOptions": None}, EngineFacts(DOCKER)),
        ({"host": {"security": {"rootless": True}}}, EngineFacts(PODMAN, True)),
        ({"host": {"security": {"rootless": False}}}, EngineFacts(PODMAN)),
        ({"host": {}}, EngineFacts(PODMAN)),
    ]
    assert [engine_facts(json.dumps(value)) for value, _ in rows] == [facts for _, facts in rows]
    assert engine_facts("nonsense") == EngineFacts(DOCKER)
    assert server_errors('{"ServerErrors": ["it is away"]}') == "it is away"
    assert server_errors("{}") == ""


def test_how_a_container_ended() -> None:
    rows: list[tuple[dict[str, Any], WorkEnd | None]] = [
        ({"Status": "running", "ExitCode": 0}, None),
        ({"Status": "paused", "ExitCode": 0}, None),
        ({"Status": "exited", "ExitCode": 3, "OOMKilled": False, "Error": ""}, WorkEnd(3)),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": True}, WorkEnd(137, True)),
        (
            {"Status": "created", "ExitCode": 127, "Error": "not found"},
            WorkEnd(127, error="not found"),
        ),
        ({"Status": "created", "ExitCode": 0}, WorkEnd(0, error="it was never started")),
        ({"Status": "dead"}, WorkEnd(None)),
        ({"Status": "exited", "ExitCode": True}, WorkEnd(None)),  # what no engine says is no code
        ({"ExitCode": 0}, WorkEnd(None)),
        ({"Status": {}, "ExitCode": 0, "Error": [1]}, WorkEnd(None)),
    ]
    assert [ended(json.dumps(state)) for state, _ in rows] == [end for _, end in rows]
    assert (first_pid('{"Pid": 4711}'), first_pid('{"Pid": 0}'), first_pid("x")) == (
        4711,
        None,
        None,
    )


def test_the_first_process_of_a_container_ends_as_another_process_would() -> None:
    """The kernel drops signals for it that it does not handle."""
    term, kill = 15, 9
    handles_term = 1 << (term - 1)
    assert signal_to_send(term, kill, handles_term) == term
    assert signal_to_send(term, kill, 0) == kill
    assert signal_to_send(term, kill, None) == term
    assert signal_to_send(kill, kill, 0) == kill


def test_options_of_a_container_survive_json() -> None:
    mounts = (ContainerMount("/a", "/b", readonly=True),)
    whole = ContainerOptions("img", mounts, ("--init",), "bob", PullPolicy.MISSING)
    for options in (whole, ContainerOptions("img")):
        assert options_from_json(json.loads(json.dumps(to_json(options)))) == options
    for wrong in (
        {}, {"image": ""}, {"image": 5}, {"image": "i", "pull": "always"},
        {"image": "i", "mounts": "x"}, {"image": "i", "mounts": [["a", "b"]]},
        {"image": "i", "mounts": [["a", 5, True]]}, {"image": "i", "options": ["--gpus=all"]},
        {"image": "i", "options": [5]}, {"image": "i", "user": 7},
    ):  # fmt: skip
        with pytest.raises(Invalid):
            options_from_json(wrong)


@pytest.mark.parametrize("image", ["--privileged", "-v/:/host", "-"])
def test_an_image_is_never_an_option(image: str) -> None:
    with pytest.raises(Invalid, match="is not the name of an image"):
        ContainerOptions(image)
    with pytest.raises(Invalid, match="is not the name of an image"):
        options_from_json({**to_json(ContainerOptions("x")), "image": image})
