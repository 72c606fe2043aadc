"""What Ray answers, read from recorded answers of a real one, and what is sent to it."""

import copy
import json
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.clusters.ray import RayCluster
from andon.clusters.ray.dashboard import RayDashboard
from andon.clusters.ray.logs import without_own_lines
from andon.clusters.ray.rules import answers, requests
from andon.clusters.ray.rules.nodes import (
    MOST_NODES,
    address_of,
    idle_node,
    just_sent,
    node_names,
    parse_nodes,
)
from andon.clusters.ray.rules.requests import JobsAndon, RayOptions
from andon.errors import Invalid
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.rules.able import refuse
from andon.jobs.rules.shortage import never_fits
from andon.model.codec import read
from andon.model.job.cluster import ClusterJob, ClusterNode, ClusterTask, SubmissionNote
from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from andon.model.job.spec import Checkpoint, JobSpec
from andon.model.shapes import to_json
from andon.settings.clusters import ClusterSettings

RECORDED = Path(__file__).parents[2] / "recorded/ray/answers.json"
TOLD: dict[str, Any] = json.loads(RECORDED.read_text())
NAMES = node_names(TOLD["nodes"])
INSTALLED = JobsAndon("/opt/python", "/opt/start.py", "1.2")
TASK = ClusterTask("ray", "k3", "train", "/notes", "/runs", 1.0, 1)


def test_recorded_jobs_are_read_as_they_were() -> None:
    found = answers.parse_jobs(TOLD["jobs"], NAMES)
    failed, stopped, broken = found
    assert (failed.id, failed.state, failed.exit_code) == ("andon-a1", JobState.FAILED, 7)
    assert (failed.where, failed.label, failed.reason) == ("192.0.2.2", "a1", "exit code 7")
    assert (stopped.state, stopped.reason) == (JobState.CANCELLED, "it was stopped")
    assert (stopped.where, broken.state) == ("n2", JobState.FAILED)
    assert answers.stopped(broken, "running").state is JobState.CANCELLED
    for one in found:
        assert one.started is not None
        assert one.ended is not None
        assert one.submitted_at <= one.started <= one.ended
        assert read(ClusterJob, to_json(one)) == one


def test_a_job_that_was_stopped_while_it_waited_does_not_come_back() -> None:
    waiting = ClusterJob("andon-z", "z", JobState.WAITING, "ada", 1.0, gpus=1)
    running = ClusterJob("andon-z", "z", JobState.RUNNING, "ada", 1.0, gpus=1, started=3.0)
    for job in (waiting, running):
        assert answers.stopped(job, "waiting").state is JobState.CANCELLED
    assert answers.stopped(running, "running").state is JobState.RUNNING


def test_recorded_nodes_have_what_is_given_out_and_no_readings() -> None:
    first, second = parse_nodes(TOLD["nodes"], TOLD["status"], None)
    assert (first.name, first.gpus, first.allocated, first.free) == ("192.0.2.2", 2, 2, 0)
    assert (second.name, second.gpus, second.allocated, second.free) == ("n2", 4, 0, 4)
    assert first.utilization_percent is None
    assert read(ClusterNode, to_json(first)) == first


def test_a_dead_node_has_nothing_free() -> None:
    told = copy.deepcopy(TOLD["nodes"])
    told["data"]["result"]["result"][1] |= {"state": "DEAD", "state_message": "raylet was killed"}
    _, dead = parse_nodes(told, TOLD["status"], None)
    assert (dead.usable, dead.free, dead.note) == (False, 0, "raylet was killed")
    assert never_fits([dead], 1) == "no node has a GPU"


Junk = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.integers(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["data", "result", "node_id", "resources_total", "GPU", "gpus", "status", "metadata",
             "submission_id", "start_time", "clusterStatus", "loadMetricsReport", "usageByNode"]
        ),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(Junk, Junk, Junk)
def test_nonsense_is_left_out_and_never_raises(one: object, two: object, three: object) -> None:
    for job in answers.parse_jobs(one, {}):
        assert read(ClusterJob, to_json(job)) == job
    node_names(two)
    for node in parse_nodes(one, two, three):
        assert node.free + node.allocated <= node.gpus


@pytest.mark.parametrize(
    ("error", "words"),
    [("JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "Ray gave up after waiting"),
     ("JOB_SUPERVISOR_ACTOR_DIED", "its node failed"),
     ("RUNTIME_ENV_SETUP_FAILED", "its runtime_env could not be set up"),
     (None, "the last line")],
)  # fmt: skip
def test_how_a_job_ended_is_said_in_words(error: str | None, words: str) -> None:
    row = TOLD["jobs"][2] | {"error_type": error, "message": "Traceback\n  the last line\n"}
    (job,) = answers.parse_jobs([row], NAMES)
    assert words in (job.reason or "")
    assert (job.state is JobState.LOST) == (error == "JOB_SUPERVISOR_ACTOR_DIED")


def test_jobs_of_other_tools_are_listed_without_a_label() -> None:
    row = TOLD["jobs"][0] | {"submission_id": None, "job_id": "02000000", "metadata": None}
    (job,) = answers.parse_jobs([row], NAMES)
    assert (job.id, job.label, job.gpus, job.user) == ("02000000", None, None, "unknown")


@pytest.mark.parametrize(
    "name", ["andon-a/../../b", "andon-", "andon-a b", "andon-a_x", f"andon-a_{'9' * 5000}"]
)
def test_only_ids_as_andon_makes_them_are_its_own(name: str) -> None:
    assert requests.label_of(name) == (None, None)
    assert requests.label_of("andon-k3_12") == ("k3", 12)


def submission(**more: Any) -> Submission:
    own = set(JobSpec.__struct_fields__) - set(Submission.__struct_fields__)
    fields = {name: more.pop(name) for name in list(more) if name in own}
    request = fields.pop("request", DeviceRequest())
    job = JobSpec(0, "train", fields.pop("argv", ("true",)), "/data", request, 1.0, **fields)
    return Submission("k3", job, **more)


REFUSED = (
    {"after": ("andon-x",)}, {"begin_at": 9.0}, {"indices": (1, 2), "limit": 1},
    {"request": DeviceRequest(memory_bytes=1)},
    {"request": DeviceRequest(shared=True)}, {"request": DeviceRequest(devices=("0",))},
    {"request": DeviceRequest(every=True)}, {"request": DeviceRequest(1, 2)},
    {"request": DeviceRequest(models=("A", "B"))}, {"request": DeviceRequest(priority=1)},
    {"retries": 1}, {"retry_lost": True}, {"checkpoint": Checkpoint()}, {"timeout_seconds": 5.0},
    {"per_gpu": 1}, {"bind": True},
)  # fmt: skip


@pytest.mark.parametrize("more", REFUSED, ids=lambda more: str(next(iter(more))))
def test_what_ray_has_not_is_refused_with_what_to_do(more: dict[str, Any]) -> None:
    desk = ClusterDesk("ray", 1.0, lambda: RayCluster(ClusterSettings("ray", "ray")))
    with pytest.raises(Invalid, match="Ray does not take") as found:
        refuse(desk, [submission(**more)])
    assert found.value.hint


def test_a_long_array_is_refused() -> None:
    with pytest.raises(Invalid, match="Ray does not take arrays of more than 100"):
        requests.refuse_long_array(submission(indices=tuple(range(101))))


def test_the_request_has_the_gpus_the_model_and_the_label() -> None:
    wanted = submission(request=DeviceRequest(2, 2, models=("H200",)), for_seconds=60.0)
    body = requests.request_of(wanted, RayOptions(andon="pip"), TASK, INSTALLED, "192.0.2.3")
    assert (body["submission_id"], body["entrypoint_num_gpus"]) == ("andon-k3", 2)
    share = requests.PIN_SHARE
    pinned = {"node:192.0.2.3": share, "accelerator_type:H200": share}
    assert body["entrypoint_resources"] == pinned
    assert body["runtime_env"] == {"pip": ["andon==1.2"]}
    assert body["metadata"]["andon_label"] == "k3"
    assert "timeout --kill-after=10 60.000 true" in body["entrypoint"]


def test_options_in_rays_own_words() -> None:
    body = requests.request_of(
        submission(options=("--entrypoint_num_cpus=2",)), RayOptions(), TASK, INSTALLED
    )
    assert body["entrypoint_num_cpus"] == 2.0
    told = requests.request_of(
        submission(options=("entrypoint_memory=8e9",)), RayOptions(), TASK, INSTALLED
    )
    assert str(told["entrypoint_memory"]) == "8000000000", "Ray takes no other number"
    for wrong in ("x=1", "entrypoint_num_cpus", "entrypoint_num_cpus=nan", "entrypoint_memory=-1"):
        with pytest.raises(Invalid, match="is not an option for Ray"):
            requests.request_of(submission(options=(wrong,)), RayOptions(), TASK, INSTALLED)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"),
                        max_size=12), min_size=1, max_size=4))  # fmt: skip
def test_words_reach_the_command_unchanged(words: list[str]) -> None:
    line = requests.entrypoint(submission(argv=("printf", r"%s\0", *words)), TASK, INSTALLED)
    after = line[line.index("set -- ") + 7 : line.index("; if [ -x")]
    assert shlex.split(after) == ["printf", r"%s\0", *words]


@pytest.mark.process
def test_without_andon_the_command_runs_alone_and_says_so() -> None:
    line = requests.entrypoint(submission(argv=("echo", "it's")), TASK, INSTALLED)
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=True, env={"PATH": "/bin"}
    )
    assert done.stdout == "it's\n"
    assert "no record of this job: its environment does not have andon 1.2" in done.stderr


@pytest.mark.parametrize(
    "options", [{"adress": "x"}, {"address": 7}, {"andon": "uv"}, {"runtime_env": "pip"}]
)
def test_options_that_are_wrong_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as found:
        requests.read_options(ClusterSettings("ray", "ray", 1.0, options))
    assert found.value.hint


OWN = (
    b"2026-11-17 19:18:04,439\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
    b"hello\nRunning entrypoint for job andon-a1: echo hello;\necho 2026\n2026\nbad"
)


@given(st.lists(st.integers(1, len(OWN)), max_size=6))
def test_rays_own_lines_are_left_out_however_they_come(cuts: list[int]) -> None:
    places = sorted({0, *cuts, len(OWN)})
    pieces = [OWN[a:b] for a, b in pairwise(places)]
    found = b"".join(without_own_lines(iter(pieces), b"echo hello;\necho 2026"))
    assert found == b"hello\n2026\nbad"


def test_an_output_without_a_newline_is_not_held_back() -> None:
    stream = without_own_lines(iter([b"50 %\r", b"60 %\r"]), b"")
    assert next(stream) == b"50 %\r"


IDLE = [
    ClusterNode("n1", "ready", True, 2, 0, 2, "A100", 0.0),
    ClusterNode("n2", "ready", True, 4, 0, 4, "H200", 1.0),
]
PLACED: list[tuple[str, dict[str, Any], int, str | None]] = [
    ("as few as are enough", {"request": DeviceRequest(2, 2)}, 0, "n1"),
    ("the only one with so many", {"request": DeviceRequest(3, 3)}, 0, "n2"),
    ("room beside what was just sent", {"request": DeviceRequest(2, 2)}, 2, "n2"),
    ("what was just sent may have it", {"request": DeviceRequest(2, 2)}, 4, None),
    ("more than is free", {"request": DeviceRequest(5, 5)}, 0, None),
    ("a whole array", {"indices": (0, 1, 2, 3)}, 0, "n2"),
    ("an array for more than one node", {"indices": (0, 1, 2, 3, 4)}, 0, None),
    ("a model", {"request": DeviceRequest(models=("H200",))}, 0, "n2"),
    ("a model without room", {"request": DeviceRequest(4, 4, models=("A100",))}, 0, None),
]


@pytest.mark.parametrize(("asked", "uncounted", "node"), [one[1:] for one in PLACED],
                         ids=[one[0] for one in PLACED])  # fmt: skip
def test_a_job_is_put_on_a_node_only_if_it_starts_there(
    asked: dict[str, Any], uncounted: int, node: str | None
) -> None:
    found = idle_node(IDLE, submission(**asked), uncounted)
    assert (found and found.name) == node


@pytest.mark.parametrize(
    "not_so", [{"usable": False}, {"utilization_percent": None}, {"utilization_percent": 6.0}]
)
def test_a_node_that_is_not_known_to_be_idle_is_left_to_ray(not_so: dict[str, Any]) -> None:
    assert idle_node([replace(IDLE[1], **not_so)], submission(), 0) is None


def test_what_was_just_sent_is_counted_without_the_job_itself() -> None:
    sent = [
        Submission("k1", submission(request=DeviceRequest(2, 2)).job),
        Submission("k2", submission().job, indices=(0, 1, 2)),
        submission(),
    ]
    notes = [SubmissionNote("ray", 1.0, one) for one in sent]
    notes.append(SubmissionNote("lab", 1.0, Submission("k4", submission().job)))
    assert just_sent(notes, "ray", "k3") == 5


def test_an_address_that_two_nodes_have_places_nothing() -> None:
    told = copy.deepcopy(TOLD["nodes"])
    rows = told["data"]["result"]["result"]
    rows[0]["node_ip"], rows[1]["node_ip"] = "192.0.2.2", "192.0.2.3"
    assert address_of(told, "n2") == "192.0.2.3"
    rows[0]["node_ip"] = "192.0.2.3"
    assert address_of(told, "n2") is None
    rows[0]["state"] = "DEAD"
    assert address_of(told, "n2") == "192.0.2.3"
    assert address_of(told, "n3") is None


def test_more_nodes_than_were_asked_for_are_left_out() -> None:
    rows = [
        {"node_id": f"{n:06}", "node_name": "n", "state": "ALIVE", "resources_total": {"GPU": 1}}
        for n in range(MOST_NODES + 500)
    ]
    listed = {"data": {"result": {"result": rows}}}
    assert len(node_names(listed)) == len(parse_nodes(listed, None, None)) == MOST_NODES
    assert node_names(listed)["000001"] == "n (000001)"


def listed(*names: str) -> dict[str, object]:
    rows = [
        {"node_id": name * 4, "node_name": name, "state": "ALIVE", "resources_total": {"GPU": 4.0}}
        for name in names
    ]
    return {"data": {"result": {"result": rows}}}


def summary(**ages: float) -> dict[str, object]:
    rows = [
        {"now": 1000.0 - age, "hostname": f"{name}.lab", "gpus": [{"utilizationGpu": 40}],
         "raylet": {"nodeId": name * 4, "nodeName": name}}
        for name, age in ages.items()
    ]  # fmt: skip
    return {"data": {"summary": rows}}


def test_a_node_that_reports_nothing_is_silent_before_ray_knows() -> None:
    told = summary(n1=0.0, n2=9.0)
    one, other = parse_nodes(listed("n1", "n2"), None, told)
    assert (one.state, one.usable, one.busy, one.read_by) == ("ready", True, 1, "Ray")
    assert (other.state, other.usable, other.free) == ("silent", False, 0)
    assert other.note == "it last reported 9 s ago; Ray still counts on it"
    assert [node.state for node in parse_nodes(listed("n1"), None, summary(n1=500.0))] == ["ready"]
    assert never_fits([other], 4) is None, "it may be back"
    assert (one.host, other.host) == ("n1.lab", "n2.lab")


@pytest.mark.parametrize("address", ["http://[::1", "http://h:x", "ftp://h", "http://a b"])
def test_an_address_that_is_none_is_a_sentence(address: str) -> None:
    with pytest.raises(Invalid, match="is not the address of a Ray dashboard"):
        RayDashboard(address, 1.0)._place()
