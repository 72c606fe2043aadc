"""Names with bytes that are no text: a folder, a program, an item."""

import json
import os
import pwd
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.host.processes.facts import ProcessTable
from andon.host.users import user_name
from andon.model import lease_wire
from andon.model.codec import document
from andon.model.device import Process, Snapshot
from andon.model.run.record import RunKind
from andon.runs.files import RecordFile
from andon.runs.header import new_run
from andon.runs.line_pipe import LinePipe
from andon.work.probe import shelf
from andon.work.rules.probe import ProbePlan, probe_of
from tests.support.replaced import answers
from tests.support.sharing_parts import lease

ODD = "a\udcffb"


def test_a_run_in_a_folder_whose_name_is_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ODD).mkdir()
    monkeypatch.chdir(tmp_path / ODD)
    begun = new_run(RunKind.COMMAND, ODD, Snapshot("n", 1.0), (), {})
    assert (begun.name, begun.working_directory) == ("a?b", f"{tmp_path}/a?b")


@pytest.mark.process
def test_a_record_takes_any_line(tmp_path: Path) -> None:
    for file in (RecordFile(tmp_path / "job"), LinePipe(tmp_path / "run", sys.exit)):
        file.put(f'{{"item":"{ODD}"}}\n')
        file.close()
        assert json.loads(file.path.read_text()) == {"item": "a?b"}


def test_a_probe_of_a_program_whose_name_is_no_text() -> None:
    plan = ProbePlan(ODD, f"./{ODD} {{n}}", "NVIDIA H200", 1, "node", 1, 4)
    probe = probe_of(plan, (), 1.0)
    assert shelf.store_probe(probe) != shelf.store_probe(replace(probe, name="a\udcfeb"))
    assert {one.name for one in shelf.stored_probes()} == {"a?b"}


def test_a_user_whose_name_is_no_text_holds_leases_and_has_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user_name.cache_clear()
    entry = pwd.struct_passwd((ODD, "x", 4711, 4711, "", "/", "/bin/sh"))
    answers(monkeypatch, pwd, "getpwuid", entry)
    held = lease(0, owner=replace(lease(0).owner, user=user_name(4711)))
    assert lease_wire.lease_from_json(document(held)).owner.user == "a?b"
    process = Process(os.getpid(), memory_bytes=1)
    assert ProcessTable().attribute([process])[0].user == "a\\udcffb"
    user_name.cache_clear()
