"""What /api/estimate answers, and what it refuses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from andon.leases.book.lease_book import Book
from andon.model.device import Snapshot
from andon.web.answers.description import ANSWERS
from tests.support.described import check
from tests.support.model_configs import CONFIGS
from tests.support.sharing_parts import gpu
from tests.support.snapshots import AT, assert_golden
from tests.support.web_parts import BEARER, Caller, Parts, served

PATH = "/api/estimate"
NODE = Snapshot("node17", AT, devices=tuple(gpu(i) for i in range(2)))


@pytest.fixture
def parts(tmp_path: Path, book: Book) -> Parts:
    return Parts(tmp_path, [NODE])


@pytest.fixture
def client(parts: Parts) -> Iterator[Caller]:
    with served(parts) as found:
        yield found


def asked(client: Caller, **body: object) -> dict[str, Any]:
    answer = client.post(PATH, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_name_and_a_config_are_answered_in_the_described_shape(client: Caller) -> None:
    named = asked(client, model="llama-3-8b", options={"tensor-parallel-size": [1, 2]})
    by_config = asked(client, config=CONFIGS["Llama-3.1-8B"], options={"max_model_len": 8192})
    refused = asked(client, model="llama-3-8b", options={"tp": 3})
    training = asked(client, model="llama-3-8b", options={"engine": "training"})
    for value in (named, by_config, refused, training):
        check(value, ANSWERS["post", PATH])
    assert (named["world_size"], named["source"]) == (2, "name alone")
    assert by_config["source"] == "config.json"
    assert refused["per_gpu"] is None
    assert_golden("api/estimate.json", json.dumps(by_config, indent=2, ensure_ascii=False) + "\n")


def test_a_command_line_a_task_and_other_gpus_are_understood(client: Caller) -> None:
    """A38: REST took neither; A14: GPUs that are not here."""
    line = "A=b vllm serve meta-llama/Llama-3.1-70B -tp 2 --max-model-len 8192 --port 8000"
    task = {
        "model": {"id_or_path": "llama-3-70b"},
        "parameters": {"tp-size": [1, 2], "max-model-len": 8192, "temperature": 0.5},
    }
    answers = [
        asked(client, command=line, on_gpus="4xH100"),
        asked(client, command=line.split(), options={"tp": 8}, on_gpus="4xH100"),
        asked(client, task=task, on_gpus="4xH100"),
        asked(client, task_name="t", **task, on_gpus="4xH100"),  # as the library takes it
        asked(client, model="llama-3-70b", options={"tp": 2, "context": 8192}, on_gpus="4xH100"),
    ]
    for value in answers:
        check(value, ANSWERS["post", PATH])
        assert value["verdict"] == "yes: it fits on 2 x H100"
        assert (value["elsewhere"], len(value["fits"])) == (True, 4)
    first, _, tasked, whole, plain = answers
    assert whole == tasked
    assert first["run"].endswith(f"-- env {line}")
    assert first["understood"].startswith("understood: vllm, model meta-llama/Llama-3.1-70B, tp 2")
    assert tasked["understood"] == "understood: model llama-3-70b; not used: temperature"
    assert (plain["understood"], plain["per_gpu"]) == (None, tasked["per_gpu"])


def test_a_header_gives_exact_bytes(client: Caller) -> None:
    header = {"__metadata__": {}, "a": {"dtype": "BF16", "shape": [1000, 1000]}}
    alone = asked(client, config=header)
    assert (alone["source"], alone["per_gpu"]["weights_bytes"]) == (
        "safetensors headers",
        2_000_000,
    )
    both = asked(client, model="m", config=CONFIGS["Qwen3-0.6B"], header=header)
    assert (both["model"], both["confidence"]) == ("m", "high")


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../secret-8b", "~/m-8b", "file:///m-8b", "https://x.org/m-8b", "a/b/c-8b",
     "m-8b.gguf", "config.json", "C:\\m-8b", "./m-8b", "//host/m-8b"],
)  # fmt: skip
def test_a_path_or_a_url_is_refused_without_a_look(client: Caller, name: str) -> None:
    answer = client.post(PATH, json={"model": name})
    assert answer.status_code == 422
    said = answer.json()["error"]
    assert said["reason"] == "a server takes the name of a model, not a path or a URL"
    assert "file" not in answer.text.replace("file:", "")


def test_a_name_that_is_also_a_file_is_only_a_name(
    client: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m-8b").mkdir()
    (tmp_path / "m-8b" / "config.json").write_text(json.dumps(CONFIGS["Qwen3-0.6B"]))
    monkeypatch.chdir(tmp_path)
    assert asked(client, model="m-8b")["parameters"] == 8_000_000_000


BAD: list[object] = [
    {}, {"model": "nonsense"}, {"model": 7}, {"model": "x-8b", "more": 1}, {"config": []},
    {"config": {}}, {"config": {"hidden_size": "x"}}, {"model": "x-8b", "options": {"tp": 0}},
    {"model": "x-8b", "options": {"typo": 1}}, {"header": {"a": 1}}, [], "x", None,
    {"model": "x-8b", "options": {"quantization": "zip"}}, {"model": "x" * 400},
    {"config": {**CONFIGS["Llama-3.1-8B"], "vocab_size": 1e400}}, {"command": "ls -l"},
    {"command": "vllm serve 'm-8b"}, {"command": "vllm serve /etc/m-8b"}, {"command": []},
    {"command": "vllm serve m-8b --config /etc/passwd"}, {"task": []}, {"task": {}},
    {"task": {"model": "../m-8b"}}, {"task": {"model": "m-8b", "parameters": [1]}},
    {"model": {}}, {"model": {"id_or_path": "../m-8b"}}, {"model": {"name": "m-8b"}, "options": 1},
    {"task": {"model": "m-8b"}, "command": "vllm serve m-8b"}, {"command": "x " * 5000},
    {"model": "m-8b", "on_gpus": "4xZebra"}, {"model": "m-8b", "on_gpus": "9" * 500},
]  # fmt: skip


def test_bad_requests_are_one_sentence(client: Caller) -> None:
    for body in BAD:
        answer = client.post(
            PATH, content=json.dumps(body), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 422, (body, answer.text)
        assert "no such file" not in answer.text
    deep = client.post(
        PATH, content='{"config":' + "[" * 100_000, headers={"Content-Type": "application/json"}
    )
    assert deep.status_code in (400, 422)


def test_a_body_has_at_most_a_mebibyte(client: Caller) -> None:
    large = {**CONFIGS["Llama-3.1-8B"], "filler": "x" * 500_000}
    assert asked(client, config=large)["source"] == "config.json"
    answer = client.post(PATH, json={"config": {"filler": "x" * 1_100_000}})
    assert answer.status_code == 413
    other = client.post("/api/leases", json={"command": "x" * 100_000}, headers=BEARER)
    assert other.status_code == 413


def test_it_counts_as_reading(parts: Parts) -> None:
    body = {"model": "x-8b"}
    with served(parts) as client:
        assert client.post(PATH, json=body).status_code == 200
        foreign = client.post(PATH, json=body, headers={"Origin": "http://evil.org"})
        assert foreign.status_code == 403
    with served(parts, "192.0.2.7") as client:  # another machine
        assert client.post(PATH, json=body).status_code == 401
        assert client.post(PATH, json=body, headers=BEARER).status_code == 200
