"""The lanes of `make test`: every module is run once, and what became of each test is read."""

import json
from pathlib import Path

from dev import lanes

from tests.conftest import REPOSITORY


def test_the_folders_that_are_collected_hold_every_module() -> None:
    found = [
        str(path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        if path.parent.name != "frameworks"  # `make frameworks` runs these
    ]
    assert lanes.modules([]) == sorted(found)
    folders = lanes.arguments(found)
    assert len(folders) == len(set(folders)) < 12
    assert all(any(name.startswith(folder) for folder in folders) for name in found)


def test_hints_are_about_modules_that_exist() -> None:
    assert [name for name in lanes.SECONDS if not (REPOSITORY / "tests" / name).exists()] == []


def test_a_test_has_failed_if_any_part_of_it_has(tmp_path: Path) -> None:
    report = tmp_path / "report"
    lines = [
        ("a", "passed", 1.0), ("a", "", 0.5), ("b", "passed", 0.1), ("b", "failed", 0.1),
        ("c", "failed", 0.1), ("c", "passed", 0.1), ("d", "skipped", 0.0),
    ]  # fmt: skip
    report.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '["e", "pas')
    found = lanes.read_results(report)
    assert found.outcomes == {"a": "passed", "b": "failed", "c": "failed", "d": "skipped"}
    assert found.seconds["a"] == 1.5
    assert found.failed() == ["b", "c"]
    assert found.summary() == "1 passed, 2 failed, 1 skipped"
    found.add(lanes.Results({"b": "passed"}))
    assert found.summary() == "2 passed, 1 failed, 1 skipped"
    assert lanes.read_results(tmp_path / "none").outcomes == {}


def test_a_module_of_which_a_test_was_only_collected_did_not_end(tmp_path: Path) -> None:
    report = tmp_path / "report"
    lines = [("x.py::a", "", 0.0), ("x.py::b", "", 0.0), ("y.py::c", "", 0.0)]
    lines += [("x.py::a", "passed", 1.0), ("y.py::c", "skipped", 0.1)]
    report.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert lanes.read_results(report).unended() == ["x.py"]
