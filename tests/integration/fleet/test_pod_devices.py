"""An agent beside a kubelet: pods are named by its socket, and andon's jobs recorded from outside.

The kubelet is a server of grpcio on a socket; the devices are simulated.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.app.pod_runs import ENDED, UNSEEN, PodRuns
from andon.app.runs import recording
from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.errors import Unavailable
from andon.host import pod_resources
from andon.host.pod_resources import KUBELET_SOCKET, PodDevices, can_ask_kubelet
from andon.host.rules.pod_resources import PodHolder
from andon.host.rules.unary_call import call_of
from andon.host.state.user_folder import runs_folder
from andon.model.run.record import RunEnd, RunState
from andon.model.run.wire import line_from_json
from andon.sampling.sampler import Sampler
from tests.support.kubelet_socket import KubeletSocket
from tests.support.replaced import constants
from tests.support.waiting import wait_for

LABEL = "a0123456789ab"
JOB_POD = f"andon-{LABEL}-x7k2p"
EVERY_SECONDS = 0.05


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[KubeletSocket]:
    found = KubeletSocket(tmp_path / KUBELET_SOCKET)
    yield found
    found.close()


@pytest.fixture
def sampler(state_folder: Path) -> Iterator[Sampler]:
    with open_sampler(load_settings({"simulate": 2}).settings) as found:
        yield found


@pytest.fixture
def pods(kubelet: KubeletSocket, sampler: Sampler, tmp_path: Path) -> Iterator[PodDevices]:
    found = PodDevices(tmp_path, EVERY_SECONDS)
    sampler.mark_by(found.marked)
    yield found
    found.close()


def _pods(sampler: Sampler) -> list[tuple[str, ...]]:
    return [one.pods for one in sampler.once().devices]


def test_pods_are_named_without_a_process_and_again_after_the_socket_was_gone(
    kubelet: KubeletSocket, sampler: Sampler, pods: PodDevices, tmp_path: Path
) -> None:
    first, _ = [one.device.uuid for one in sampler.once().devices]
    kubelet.holders = [PodHolder("team-a", "notebook-7", "jupyter", (first,))]
    named = [("team-a/notebook-7/jupyter",), ()]
    assert can_ask_kubelet(tmp_path)
    assert _pods(sampler) == [(), ()]
    pods.start()
    wait_for(lambda: _pods(sampler) == named)
    kubelet.close()
    wait_for(lambda: _pods(sampler) == [(), ()])
    kubelet.open()
    wait_for(lambda: _pods(sampler) == named)
    kubelet.raw = b"\x0a\xff"  # no such list
    wait_for(lambda: _pods(sampler) == [(), ()])
    kubelet.raw = None
    wait_for(lambda: _pods(sampler) == named)


def test_a_list_larger_than_any_window_comes_whole_and_a_refusal_is_said(
    kubelet: KubeletSocket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = list[int]()
    many = [PodHolder("team", f"p{n}", "main", (f"GPU-{n}", "x" * 200)) for n in range(2000)]
    kubelet.holders = many
    pods = PodDevices(tmp_path)
    pods.listen(lambda found: heard.append(len(found)))
    pods._ask()
    assert heard == [len(many)]
    constants(monkeypatch, pod_resources, CALL=call_of("/v1.PodResourcesLister/None"))
    with pytest.raises(Unavailable, match="the call is refused"):
        pods._ask()
    constants(monkeypatch, pod_resources, CALL=b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(Unavailable):
        pods._ask()
    kubelet.close()
    with pytest.raises(Unavailable, match="No such file or directory"):
        pods._ask()
    kubelet.open()


def test_a_container_that_begins_is_noticed_at_once(kubelet: KubeletSocket, tmp_path: Path) -> None:
    logs = tmp_path / pod_resources.LOGS
    logs.mkdir(parents=True)
    pods = PodDevices(tmp_path, every_seconds=3600.0, check_seconds=EVERY_SECONDS)
    pods.start()
    wait_for(lambda: kubelet.asked == 1)
    (logs / "a.log").touch()
    os.utime(logs, (1, 1))  # its time is coarse
    wait_for(lambda: kubelet.asked == 2)
    pods.close()


def test_a_job_is_recorded_from_outside_while_its_pod_has_devices(
    kubelet: KubeletSocket, sampler: Sampler, pods: PodDevices
) -> None:
    first, second = [one.device.uuid for one in sampler.once().devices]
    stranger = PodHolder("team-a", "notebook-7", "jupyter", (first,))
    ours = PodHolder("default", JOB_POD, "main", (second,))
    other = PodHolder("default", "andon-docs-zzzzz", "main", (first,))
    record = recording(load_settings({}).settings, sampler, direct=True)
    runs = PodRuns(record, sampler.once)
    path = runs_folder() / f"{JOB_POD}.jsonl"
    kubelet.holders = [stranger, ours, other]
    pods.listen(runs)
    pods.start()
    wait_for(lambda: path.exists() and path.read_text().count('"sample"') >= 2)
    pods.close()
    runs.close()  # an agent that is replaced: the next one goes on
    before = path.read_text()
    assert '"event":"end"' not in before
    runs = PodRuns(record, sampler.once)
    runs([stranger, ours])
    wait_for(lambda: path.read_text().count('"sample"') > before.count('"sample"'))
    runs([])  # a kubelet that begins again, and does not know its pods yet
    between = path.read_text()
    assert '"event":"end"' not in between
    runs([stranger, ours])
    wait_for(lambda: path.read_text().count('"sample"') > between.count('"sample"'))
    runs([stranger])
    runs([stranger])
    runs([stranger, ours])  # a kubelet that lists it once more: it is over
    runs.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    begin, end = lines[0], line_from_json(lines[-1])
    assert (begin["id"], begin["kind"], begin["user"]) == (LABEL, "job", None)
    assert begin["params"] == {"job": f"default/andon-{LABEL}", "pod": JOB_POD}
    assert [one["uuid"] for one in begin["devices"]] == [second]
    assert isinstance(end, RunEnd)
    assert (end.state, end.message, end.exit_code) == (RunState.ENDED, ENDED, None)
    assert end.samples >= 3
    assert set(end.summary) == {second}
    assert sum(line["event"] == "begin" for line in lines) == 1
    assert sorted(one.name for one in runs_folder().glob("*.jsonl")) == [path.name]


def test_a_pod_whose_devices_are_not_seen_has_a_record_that_says_so(sampler: Sampler) -> None:
    runs = PodRuns(recording(load_settings({}).settings, sampler, direct=True), sampler.once)
    runs([PodHolder("default", JOB_POD, "main", ("GPU-of-no-one",))])
    runs([])
    runs.close()
    last = json.loads((runs_folder() / f"{JOB_POD}.jsonl").read_text().splitlines()[-1])
    assert (last["samples"], last["no_samples_reason"]) == (0, UNSEEN)
