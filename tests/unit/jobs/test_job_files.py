"""Job files: what they ask for in three formats, and every mistake by path and line."""

import json
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from andon.cli.commands.jobs.submit import CLICK_TYPES, is_job_file
from andon.cli.main import cli
from andon.errors import Invalid, Unavailable
from andon.jobs.file import read_job_file, specs_of
from andon.jobs.queue import Queue
from andon.jobs.rules.file import jobs_in
from andon.jobs.rules.file_keys import (
    KEYS,
    READERS,
    REQUEST_KEYS,
    FileJob,
    read_options,
)
from andon.jobs.rules.file_lines import json_lines, shown_path, toml_lines
from andon.jobs.rules.job_options import JOB_OPTIONS
from andon.model.job.spec import Checkpoint, NotifyWhen
from andon.units import GIB
from tests.conftest import REPOSITORY
from tests.support.counting import python_calls

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
check = true
bind = true
simulate = 2
tags = ["a", "b"]
stop_when = "loss > 2 after 1m"
group = "sweep"

[params]
lr = 0.1

[environment]
SEED = 7

[metrics]
loss = "([0-9.]+)"
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
    assert (job.spec.for_seconds, job.spec.grace_seconds, job.spec.timeout_seconds) == (
        7200.0,
        10.0,
        86_400.0,
    )
    assert job.after == ("12", "@", "12_3")
    assert job.spec.checkpoint == Checkpoint("USR1", 90.0)
    assert job.spec.notify is NotifyWhen.FAIL
    assert job.environment == {"SEED": "7"}
    plain = FileJob()
    names = [row.name for row in KEYS.values()]
    whole, empty = ({**asdict(one.spec), **asdict(one)} for one in (job, plain))
    left = {name for name in names if whole[name] == empty[name]}
    sweeps = {"parameters", "zip", "sample", "sample_seed", "server", "loads"}  # not of an array
    others = {"after_any", "engine_options", "image", "on", "reservation"}
    assert left == others | sweeps, "the file uses every other key"


def test_json_and_yaml_say_the_same(tmp_path: Path) -> None:
    import tomllib

    document = tomllib.loads(WHOLE)
    of_toml = read_job_file(written(tmp_path, "job.toml", WHOLE))
    assert read_job_file(written(tmp_path, "job.json", json.dumps(document))) == of_toml
    assert read_job_file(written(tmp_path, "job.yaml", json.dumps(document))) == of_toml


@pytest.mark.parametrize("name", ["task.json", "TASK.jsonc"])
def test_json_may_have_comments_and_mistakes_keep_their_lines(tmp_path: Path, name: str) -> None:
    text = """// a sweep
{
  "model": {"id_or_path": "llama-3-70b"},  // by its name
  /* "base_runtime": "vllm",
     later */
  "parameters": {"tp-size": [1, 2], "url": "http://a//b /* c */"}
}"""
    assert is_job_file(name)
    first, second = read_job_file(written(tmp_path, name, text))
    assert (first.request.least, second.request.least) == (1, 2)
    assert "http://a//b /* c */" in first.command
    with pytest.raises(Invalid) as wrong:
        read_job_file(written(tmp_path, name, text.replace('"tp-size": [1, 2]', '"tp-size": []')))
    assert ":6: parameters.tp-size" in wrong.value.reason
    with pytest.raises(Invalid, match=r":6: not valid JSON"):
        read_job_file(written(tmp_path, name, text.replace('c */"}', 'c */",}')))


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


@pytest.mark.slow
def test_of_very_many_mistakes_the_first_are_told() -> None:
    """Each costs a search for what was meant, also in a server."""
    document = {**{f"k{n}": 1 for n in range(2000)}, "job": [{}] * 100}

    def read() -> None:
        with pytest.raises(Invalid, match="at least 50 mistakes") as wrong:
            jobs_in(document, "x.json", {})
        assert len(wrong.value.mistakes) == 50

    assert python_calls(read)["_meant"] == 50


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


def test_the_examples_of_the_page_are_job_files(tmp_path: Path) -> None:
    found = {}
    for number, (kind, text) in enumerate(re.findall(r"```(toml|json)\n(.*?)```", PAGE, re.S)):
        path = tmp_path / f"{number}.{kind}"
        path.write_text(text)
        found[number] = read_job_file(str(path))
    assert [len(jobs) for jobs in found.values()] == [1, 2, 1, 6]
    assert found[0][0].environment == {"WANDB_MODE": "offline"}
    assert (found[1][1].after, found[1][1].request.least) == (("prepare",), 4)
    words = " ".join(found[3][0].command)
    assert words in " ".join(PAGE.split()), "the first of the six commands stands on the page"


def server_file(**more: object) -> dict[str, object]:
    server = {"command": ["serve", "{port}", "--tp", "{tp}"], "ready_timeout": "5s"}
    load = [{"model": "m", "rate": [1, 2], "seconds": 3}]
    return {"name": "s", "server": server, "load": load, "parameters": {"tp": [1, 2]}, **more}


@pytest.mark.process
def test_a_server_under_test_is_a_job_for_each_combination(tmp_path: Path) -> None:
    (job,) = jobs_in(server_file(), "job.toml", {})
    assert job.server is not None
    assert [load["rate"] for load in job.loads] == [1, 2]
    specs = specs_of(job, tmp_path)
    assert [spec.request.least for spec in specs] == [1, 2]
    assert [spec.group for spec in specs] == ["s", "s"]
    trial = json.loads(specs[1].argv[-1])
    assert trial["command"] == ["serve", "{port}", "--tp", "2"]
    assert trial["params"] == {"tp": 2}
    assert trial["ready_seconds"] == 5.0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"load": []}, "not a list of loads"),
        ({"load": [{"model": "m", "rate": 1}]}, "a load needs"),
        ({"load": [{"model": "m", "rate": 1, "seconds": 1, "x": 1}]}, "no key 'x'"),
        ({"server": {"command": ["serve"]}}, "does not use {port}"),
        ({"server": {"command": ["s", "{port}"], "health": "x"}}, "health"),
        ({"server": {"command": ["s", "{port}"], "port": 1}}, "no key 'port'"),
        ({"command": ["x"]}, "either a command or a server"),
        ({"image": "i"}, "cannot be combined"),
    ],
)
def test_mistakes_in_a_server_under_test_are_named(more: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid) as raised:
        jobs_in(server_file(**more), "job.toml", {})
    assert words in f"{raised.value.reason} {' '.join(raised.value.mistakes)}"


def test_python_gives_the_keys_of_a_job_file() -> None:
    found = read_options({"retries": 2, "after": ("12",), "begin": "22:30", "for": "2h"})
    assert found == {"retries": 2, "after": ("12",), "begin": "22:30", "for_seconds": 7200.0}
    for wrong in ({"retrys": 2}, {"command": "x"}, {"on": "lab"}, {"retries": -1}, {"begin": 5}):
        with pytest.raises(Invalid, match=next(iter(wrong))):
            read_options(wrong)


def test_every_kind_of_option_is_read_everywhere() -> None:
    kinds = {row.kind for row in JOB_OPTIONS}
    assert kinds == READERS.keys()
    assert {row.kind for row in JOB_OPTIONS if row.help} >= CLICK_TYPES.keys()
