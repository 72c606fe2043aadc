"""The lanes of `make test`: every module is run once, and what became of each test is read."""

import json
from pathlib import Path

from dev import lanes

from tests.conftest import REPOSITORY


def test_every_module_is_in_one_portion_and_later_portions_are_shorter() -> None:
    found = [
        str(path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        if path.parent.name != "frameworks"  # `make frameworks` runs these
    ]
    portions = lanes.portions(lanes.modules([]))
    assert sorted(name for portion in portions for name in portion) == sorted(found)
    assert all(len({name.split("/")[1] for name in portion}) == 1 for portion in portions)
    left = sum(map(lanes.guess_seconds, found))
    for portion in portions:
        seconds = [lanes.guess_seconds(name) for name in portion]
        assert seconds == sorted(seconds, reverse=True)
        longest = max(lanes.SHORTEST_PORTION_SECONDS, left / lanes.ROUNDS / len(lanes.LANES))
        assert len(portion) == 1 or sum(seconds) <= longest + 1e-6
        left -= sum(seconds)


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


def test_of_several_modules_their_folders_are_named_and_a_list(tmp_path: Path) -> None:
    unit, listed = lanes.modules(["tests/unit"]), tmp_path / "listed"
    assert lanes.arguments(unit[:4], listed) == [f"--portion={listed}", "tests/unit"]
    assert listed.read_text().splitlines() == unit[:4]
    assert lanes.arguments(unit[:2], listed) == unit[:2]
    one_test = [f"{module}::test_it" for module in unit[:4]]
    assert lanes.arguments(one_test, listed) == one_test
