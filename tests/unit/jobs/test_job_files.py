"""Job files: what they ask for in three formats, and every mistake by path and line."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.app.jobs import Queue, same_as
from andon.cli.commands.jobs.submit import is_job_file, submit
from andon.cli.commands.share import container_options
from andon.cli.main import cli
from andon.cli.show.jobs.dry_run import render_dry
from andon.compat.estimates import estimate_gpu_requirements
from andon.core.estimate.options import ServingEngine
from andon.core.executing.options_wire import options_from_json
from andon.core.executing.order import ContainerOptions
from andon.core.jobs import job_file
from andon.core.jobs.engine_commands import ENGINES
from andon.core.jobs.file_lines import json_lines, shown_path, toml_lines
from andon.core.jobs.job_file import jobs_in
from andon.core.jobs.job_file_keys import KEYS, REQUEST_KEYS, FileJob
from andon.core.jobs.older_file import is_older, older_jobs_in
from andon.core.jobs.states import FIRST
from andon.core.jobs.views import view_of
from andon.core.sharing import requests
from andon.core.sharing.requests import RequestOptions
from andon.engine.jobs.commit_question import GitCommitLookup
from andon.engine.jobs.file_specs import JobQueue, queue_all, specs_of
from andon.engine.jobs.folder import open_jobs_folder
from andon.engine.jobs.job_files import read_job_file
from andon.errors import Invalid, Unavailable
from andon.model.job import Checkpoint, JobFacts, JobNote, NotifyWhen
from andon.model.job.spec_wire import spec_from_json, spec_to_json
from andon.units import GIB, MIB
from tests.conftest import REPOSITORY
from tests.support.rows import rows

PAGE = (REPOSITORY / "docs" / "job-files.md").read_text(encoding="utf-8")

WHOLE = """
name = "train"
command = ["python", "train.py", "--lr", 0.1]
folder = "runs"
gpus = "1..2"
memory = "20GiB"
prefer = ["H200"]
pack = true
for = "2h"
grace = "10s"
timeout = "1d"
after = [12, "@", "12_3"]
begin = "2027-01-01T00:00"
array = "0-9%2"
retries = 2
retry_lost = true
retry_oom = 1
checkpoint = "USR1@90s"
notify = "fail"
unique = true
bind = true
simulate = 2
tags = ["a", "b"]
group = "sweep"

[params]
lr = 0.1

[environment]
SEED = 7
"""


def written(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_every_key_of_a_job_is_read(tmp_path: Path) -> None:
    (job,) = read_job_file(written(tmp_path, "job.toml", WHOLE))
    assert job.command == ("python", "train.py", "--lr", "0.1")
    assert (job.request.least, job.request.most) == (1, 2)
    assert job.request.memory_bytes == 20 * GIB
    assert job.request.prefer == ("H200",)
    assert (job.for_seconds, job.grace_seconds, job.timeout_seconds) == (7200.0, 10.0, 86_400.0)
    assert job.after == ("12", "@", "12_3")
    assert job.checkpoint == Checkpoint("USR1", 90.0)
    assert job.notify is NotifyWhen.FAIL
    assert job.environment == {"SEED": "7"}
    plain = FileJob()
    left = {name for name, _, _ in KEYS.values() if getattr(job, name) == getattr(plain, name)}
    assert left == {"after_any", "image"}, "the file above uses every other key"


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    import tomllib

    document = tomllib.loads(WHOLE)
    of_toml = read_job_file(written(tmp_path, "job.toml", WHOLE))
    assert read_job_file(written(tmp_path, "job.json", json.dumps(document))) == of_toml
    assert read_job_file(written(tmp_path, "job.yaml", json.dumps(document))) == of_toml


def test_a_text_is_run_by_a_shell_and_jobs_share_what_is_outside(tmp_path: Path) -> None:
    text = """
gpus = 2
[environment]
A = "1"
B = "1"
[[job]]
name = "prepare"
command = "make data && echo done"
[[job]]
name = "train"
gpus = 4
command = ["python", "train.py"]
after = "prepare"
[job.environment]
B = "2"
"""
    first, second = read_job_file(written(tmp_path, "jobs.toml", text))
    assert first.command == ("/bin/sh", "-c", "make data && echo done")
    assert (first.request.least, second.request.least) == (2, 4)
    assert second.after == ("prepare",)
    assert (first.environment, second.environment) == ({"A": "1", "B": "1"}, {"A": "1", "B": "2"})


MISTAKES = {
    "toml": """
gpus = true
comand = ["x"]
[[job]]
for = 3
memory = "20"
checkpoint = "KILL"
[[job]]
command = []
gpus = 0
after = ["nobody"]
bind = true
image = "a"
[job.environment]
A = []
""",
    "json": """{
 "gpus": true, "x": {"y": [1,
 2]},
 "job": [
  {"command": ["a"],
   "for": 3},
  {"command": ["a", "b"],
   "retries": -1}
 ]
}
""",
    "yaml": """gpus: yes
job:
- command: [a]
  for: 3
- command: x
  retries: -1
""",
}
EXPECTED = {
    "toml": [
        "2: gpus: not N|N..M|all",
        "3: comand: there is no such key: did you mean command?",
        "5: job[1].for: not a duration with a unit",
        "6: job[1].memory: memory '20' has no unit",
        "7: job[1].checkpoint: not one of the signals",
        "4: job[1]: there is no command",
        "9: job[2].command: not a command",
        "10: job[2].gpus: a job needs at least one GPU",
        "11: job[2].after: 'nobody' is neither a job's number nor an earlier job's name",
        "14: job[2].environment: A is neither a text nor a number",
        "12: job[2].bind: is for commands outside of a container",
    ],
    "json": [
        "2: gpus: not N|N..M|all",
        "2: x: there is no such key",
        "6: job[1].for: not a duration with a unit",
        "8: job[2].retries: not a whole number from 0 to 1000",
    ],
    "yaml": [
        "1: gpus: not N|N..M|all",
        "4: job[1].for: not a duration with a unit",
        "6: job[2].retries: not a whole number from 0 to 1000",
    ],
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_all_mistakes_at_once_by_path_and_line(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, f"job.{kind}", MISTAKES[kind])
    with pytest.raises(Invalid) as wrong:
        read_job_file(path)
    found = wrong.value.mistakes
    missing = [
        words for words in EXPECTED[kind] if not any(f"{path}:{words}" in line for line in found)
    ]
    assert missing == [], "\n".join(found)
    assert f"has {len(found)} mistakes" in wrong.value.reason


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.toml", "a = 1\nb = x", ":2: not valid TOML"),
        ("a.json", '{"a": }', ":1: not valid JSON"),
        ("a.yaml", "a: [1,\nb: }", ":2: not valid YAML"),
        ("a.json", "[]", "not a table of settings"),
        ("a.toml", "", "there is no command"),
        ("a.json", "[" * 5000, "not valid JSON"),
        ("a.yaml", "- 1", "not a table of settings"),
        ("a.toml", "job = 3", "not a list of 1 to"),
        ("a.json", '{"job": [3]}', "job[1]: not a table"),
        ("a.toml", 'command = "x"\nafter = "y"', ":2: after: 'y' is neither"),
        ("a.toml", 'command = "x"\nshared = true', "a shared device needs an amount of memory"),
    ],
)
def test_nonsense_is_one_clear_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(Invalid) as wrong:
        read_job_file(written(tmp_path, name, text))
    assert says in wrong.value.reason


def test_of_very_many_mistakes_the_first_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs a search for what was meant, also in a server."""
    asked: list[str] = []

    def close_matches(word: str, *more: object, **most: object) -> list[str]:
        asked.append(word)
        return []

    monkeypatch.setattr(job_file, "get_close_matches", close_matches)
    document = {**{f"k{n}": 1 for n in range(20_000)}, "job": [{}] * 1000}
    with pytest.raises(Invalid, match="at least 50 mistakes") as wrong:
        jobs_in(document, "x.json", {})
    assert (len(wrong.value.mistakes), len(asked)) == (50, 50)


def test_a_missing_file_says_how_to_run_a_command_instead(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as wrong:
        read_job_file(str(tmp_path / "no.toml"))
    assert "No such file" in wrong.value.reason
    assert "andon submit --" in wrong.value.hint
    assert [is_job_file(w) for w in ("a.toml", "A.YML", "train.py", "toml")] == [True, True, 0, 0]


@pytest.mark.parametrize("after", ["--dry-run", "other.toml"])
def test_words_after_a_job_file_are_refused(tmp_path: Path, after: str) -> None:
    name = written(tmp_path, "a.toml", 'command = "true"')
    with pytest.raises(Invalid) as wrong:
        cli.main(["submit", name, after], standalone_mode=False)
    assert wrong.value.reason == f"{name} is a job file, and nothing may follow it: {after}"
    assert wrong.value.hint == f"options come before the file: andon submit --dry-run {name}"
    assert not Queue().jobs


def test_without_its_parser_yaml_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(Unavailable) as wrong:
        read_job_file(written(tmp_path, "a.yml", "command: x"))
    assert "andon[yaml]" in wrong.value.hint


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*KEYS, *REQUEST_KEYS, "job", "x"]), VALUES, max_size=6))
def test_whatever_is_in_it_is_read_or_refused(document: dict[str, object]) -> None:
    with suppress(Invalid):
        jobs = jobs_in(document, "f", {})
        assert jobs
        assert all(job.command for job in jobs)


@given(VALUES)
def test_lines_of_any_json(document: object) -> None:
    lines = json_lines(json.dumps(document, indent=1))
    for path in lines:
        assert shown_path(path) or not any(path)  # names may be empty
    if isinstance(document, dict):
        assert {(key,) for key in document} <= set(lines)


def test_lines_of_toml() -> None:
    text = 'a = 1\n[t]\nb.c = 2\n"d e" = 3\n[[job]]\n[job.x]\ny = 1\n[[job]]\nz = 1\n'
    assert toml_lines(text) == {
        ("a",): 1, ("t",): 2, ("t", "b", "c"): 3, ("t", "d e"): 4, ("job",): 5, ("job", 0): 5,
        ("job", 0, "x"): 6, ("job", 0, "x", "y"): 7, ("job", 1): 8, ("job", 1, "z"): 9,
    }  # fmt: skip


# The older form.


OLDER = {
    "task_name": "sweep",
    "model": {"id_or_path": "meta/llama-3-70b"},
    "parameters": {
        "tp-size": [1, 4],
        "mem-fraction-static": [0.8, 0.9],
        "trust": True,
        "no": False,
    },
}


def test_the_older_form_is_one_job_per_combination() -> None:
    assert is_older(OLDER)
    assert not is_older({"model": "H200", "command": "x"})
    jobs = older_jobs_in(OLDER, "old.json", {})
    assert [job.request.least for job in jobs] == [1, 1, 4, 4]
    assert {job.request.memory_bytes for job in jobs} == {20_000 * 1024 * 1024}
    assert jobs[3].command == (
        "python", "-m", "sglang.launch_server", "--model-path", "meta/llama-3-70b",
        "--tp-size", "4", "--mem-fraction-static", "0.9", "--trust",
    )  # fmt: skip
    assert {job.name for job in jobs} == {"sweep"}


@rows(
    ("engine", "given", "words"),
    [
        ("sglang", {"tp-size": 2, "tensor_parallel_size": 2}, ["--tp-size", "2"] * 2),
        ("sglang", {"dp": 2, "pp-size": 3}, ["--dp-size", "2", "--pp-size", "3"]),
        ("sglang", {"max-model-len": 9, "enforce-eager": True},
         ["--context-length", "9", "--disable-cuda-graph"]),
        ("sglang", {"mem-fraction-static": 0.8}, ["--mem-fraction-static", "0.8"]),
        ("vllm", {"tp-size": 2}, ["--tensor-parallel-size", "2"]),
        ("vllm", {"tp": 2, "pp_size": 3, "dp-size": 4, "dcp": 5},
         ["--tensor-parallel-size", "2", "--pipeline-parallel-size", "3",
          "--data-parallel-size", "4", "--decode-context-parallel-size", "5"]),
        ("vllm", {"context-length": 9, "max-running-requests": 8},
         ["--max-model-len", "9", "--max-num-seqs", "8"]),
        ("vllm", {"gpu_memory_utilization": 0.8, "max-num-batched-tokens": 7},
         ["--gpu-memory-utilization", "0.8", "--max-num-batched-tokens", "7"]),
        ("vllm", {"kv-cache-dtype": "fp8", "quantize": "awq", "made-up": 1},
         ["--kv-cache-dtype", "fp8", "--quantization", "awq", "--made-up", "1"]),
        ("trtllm", {"tp-size": 2, "pipeline-parallel-size": 3},
         ["--tp_size", "2", "--pp_size", "3"]),
        ("trtllm", {"max-model-len": 9, "max-num-seqs": 8},
         ["--max_seq_len", "9", "--max_batch_size", "8"]),
    ],
)  # fmt: skip
def test_each_engine_gets_its_own_spelling(
    engine: str, given: dict[str, object], words: list[str]
) -> None:
    document = {"model": {"id_or_path": "m"}, "base_runtime": engine, "parameters": given}
    (job,) = older_jobs_in(document, "old.json", {})
    start = ENGINES[ServingEngine(engine)].start
    assert job.command == (*start, "m", *words)


@rows(
    ("engine", "name", "says"),
    [
        ("vllm", "mem-fraction-static",
         "vLLM has --gpu-memory-utilization, which means something else"),
        ("sglang", "max-num-batched-tokens", "SGLang has --chunked-prefill-size, which means"),
        ("sglang", "decode-context-parallel-size", "SGLang has no such option"),
        ("trtllm", "dp-size", "TensorRT-LLM has no such option"),
    ],
)  # fmt: skip
def test_what_an_engine_does_not_have_is_a_mistake(engine: str, name: str, says: str) -> None:
    document = {"model": {"id_or_path": "m"}, "base_runtime": engine, "parameters": {name: 1}}
    with pytest.raises(Invalid, match=f"parameters.{name}: {says}"):
        older_jobs_in(document, "old.json", {})


def test_a_command_of_ones_own_gets_the_parameters_as_they_are() -> None:
    document = {"model": {"id_or_path": "m"}, "command": ["serve"], "parameters": {"tp_size": 2}}
    (job,) = older_jobs_in(document, "old.json", {})
    assert job.command == ("serve", "--model", "m", "--tp_size", "2")


@pytest.mark.process  # git is asked for the commit
def test_jobs_of_a_parameter_list_carry_their_parameters_and_a_group(tmp_path: Path) -> None:
    jobs = older_jobs_in(OLDER, "old.json", {})
    assert {job.group for job in jobs} == {"sweep"}
    assert jobs[1].params == {
        "tp-size": 1, "mem-fraction-static": 0.9, "trust": True, "no": False,
    }  # fmt: skip
    specs = [specs_of(job, tmp_path, {}, dict) for job in jobs]
    (first,) = specs[0]
    wired = spec_from_json(json.loads(json.dumps(spec_to_json(replace(first, number=1)))))
    assert (wired.group, wired.params) == (first.group, first.params)
    view = view_of(JobFacts(first), FIRST)
    assert (view.group, view.params["tp-size"], view.params["no"]) == ("sweep", "1", "False")
    lines = [line.plain for line in render_dry(specs, 100)]
    assert lines[0] == "would queue 4 jobs"
    assert lines[1].split() == [
        "NAME",
        "GPUS",
        "MEMORY",
        "tp-size",
        "mem-fraction-static",
        "COMMAND",
    ]
    assert lines[4].split()[:6] == ["sweep", "4", "19.5", "GiB", "4", "0.8"]


def test_the_older_form_with_more() -> None:
    sizes = {"parameters": {"tp-size": [1, 4]}, "for": "1h", "gpus": 2}
    served = {**OLDER, "base_runtime": "vllm", **sizes}
    jobs = older_jobs_in(served, "old.json", {})
    assert jobs[0].command[:3] == ("vllm", "serve", "meta/llama-3-70b")
    assert {(job.for_seconds, job.request.least) for job in jobs} == {(3600.0, 2)}
    docker = {**OLDER, "deployment_mode": "docker", "runtime_image_tag": "v1"}
    assert {job.image for job in older_jobs_in(docker, "old.json", {})} == {"sglang:v1"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": {}}, "there is no model.id_or_path"),
        ({"parameters": 3}, "parameters: not a table"),
        ({"parameters": {"a": []}}, "parameters.a: neither a value nor a list"),
        ({"parameters": {str(n): list(range(10)) for n in range(5)}}, "100,000 combinations"),
        ({"deployment_mode": "docker"}, "docker needs an image"),
        ({"deployment_mode": "ome"}, "neither docker nor local"),
        ({"base_runtime": "x"}, "not one of sglang, vllm, trtllm"),
        ({"gpu": 3}, "there is no such key"),
    ],
)
def test_mistakes_in_the_older_form(change: dict[str, object], says: str) -> None:
    with pytest.raises(Invalid) as wrong:
        older_jobs_in({**OLDER, **change}, "old.json", {})
    assert says in "\n".join((wrong.value.reason, *wrong.value.mistakes))


def test_the_need_of_the_older_form_is_that_of_the_kept_function() -> None:
    """Sizes that the earlier systems did not know are estimated."""
    models = ("llama-3-70b", "llama-2-13b-chat", "Qwen2.5-7B-Instruct", "gpt2", "mistral-22b")
    for model in models:
        document = {"model": {"id_or_path": model}, "parameters": {"tp_size": [1, 2], "dp": 3}}
        found = [one.request for one in older_jobs_in(document, "old.json", {})]
        for request, size in zip(found, (1, 2), strict=True):
            asked = {"model": {"name": model}, "parameters": {"tp-size": size, "dp-size": 3}}
            gpus, memory = estimate_gpu_requirements(asked)
            assert (request.least, request.memory_bytes) == (gpus, memory * MIB), (model, size)
    assert found[0].memory_bytes is not None
    assert found[0].memory_bytes > 40_000 * MIB  # 22 billion parameters in 16 bits


UNIQUE = {
    "once.toml": """
[[job]]
name = "prepare"
command = "make data"
unique = true
[[job]]
name = "train"
command = "make"
after = "prepare"
""",
    "once.json": json.dumps(
        {
            "job": [
                {"name": "prepare", "command": "make data", "unique": True},
                {"name": "train", "command": "make", "after": "prepare"},
            ]
        }
    ),
}


@pytest.mark.process  # git
def test_a_unique_job_of_a_file_is_queued_once(tmp_path: Path) -> None:
    folder = open_jobs_folder()
    queue = JobQueue(lambda: Queue().jobs, folder.submit, same_as)
    made = []
    for name, text in UNIQUE.items():
        path = tmp_path / name
        path.write_text(text)
        made.append(queue_all(read_job_file(str(path)), tmp_path, queue))
    assert [[one.is_new for one in jobs] for jobs in made] == [[True, True], [False, True]]
    assert [one.spec.number for jobs in made for one in jobs] == [1, 2, 1, 3]
    assert made[1][1].spec.after == (1,), "the one that was there already"
    folder.note(1, "cancelled", JobNote(1, 1.0))
    assert queue_all(read_job_file(str(path)), tmp_path, queue)[0].is_new, "it has ended"


@pytest.mark.process  # git
def test_an_image_of_a_file_is_the_container_of_its_job(tmp_path: Path) -> None:
    jobs = jobs_in({"command": "x", "image": "trainer:1"}, "f", {})
    (spec,) = specs_of(jobs[0], tmp_path, {}, dict)
    assert options_from_json(spec.container) == ContainerOptions("trainer:1")


def test_the_page_documents_every_key() -> None:
    missing = [key for key in (*KEYS, *REQUEST_KEYS) if f"| `{key}` |" not in PAGE]
    assert missing == []


def test_the_examples_of_the_page_are_job_files(tmp_path: Path) -> None:
    found = {}
    for number, (kind, text) in enumerate(re.findall(r"```(toml|json)\n(.*?)```", PAGE, re.S)):
        path = tmp_path / f"{number}.{kind}"
        path.write_text(text)
        found[number] = read_job_file(str(path))
    assert [len(jobs) for jobs in found.values()] == [1, 2, 6]
    assert found[0][0].environment == {"WANDB_MODE": "offline"}
    assert (found[1][1].after, found[1][1].request.least) == (("prepare",), 4)
    words = " ".join(found[2][0].command)
    assert words in " ".join(PAGE.split()), "the first of the six commands stands on the page"


def test_the_page_about_jobs_documents_every_option_of_submit() -> None:
    """Those of `andon run` and of containers are explained on other pages."""
    page = (REPOSITORY / "docs" / "jobs.md").read_text(encoding="utf-8")
    elsewhere = {*(row.name for row in requests.rows(RequestOptions)), *container_options._NAMES}
    own = {one for one in submit.params if one.name not in elsewhere - {"priority"}}
    shared = {name for one in cli.params for name in one.opts}
    named = {name for one in own for name in one.opts if name.startswith("--")} - shared
    assert {"--for", "--array", "--unique", "--priority"} <= named
    assert [name for name in sorted(named) if f"`{name}" not in page] == []
    for link in ("job-files.md", "policy.md", "runs.md", "notifiers.md"):
        assert f"]({link}" in page


@pytest.mark.process
def test_the_commit_is_found_by_a_process_with_many_open_files(tmp_path: Path) -> None:
    """As a server may have: `select` fails over 1023."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "one")):
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1100), hard))
    try:
        question = GitCommitLookup(str(tmp_path))
        low, question._answer = question._answer, os.dup2(question._answer, 1050)
        os.close(low)
        assert len(question.answer() or "") == 40
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.process
def test_the_commit_is_asked_for_where_sigchld_is_ignored(tmp_path: Path) -> None:
    """As whoever started this process may have set it."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert GitCommitLookup(str(tmp_path)).answer() is None
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.slow
def test_a_git_that_is_stuck_in_the_kernel_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def waitpid(pid: int, options: int) -> tuple[int, int]:
        asked.append(options)
        return 0, 0

    question = GitCommitLookup.__new__(GitCommitLookup)
    question._pid = 4711
    question._answer, stuck = os.pipe()
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    monkeypatch.setattr(os, "waitpid", waitpid)
    assert question.answer() is None
    assert set(asked) == {os.WNOHANG}
    os.close(stuck)
