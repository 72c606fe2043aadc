"""What the doctor makes of hundreds of machines: exactly what is wrong with each, and no more."""

from collections.abc import Callable, Iterator, Sequence

import pytest
from msgspec.structs import replace

from andon.cli.show.findings import broken_command
from andon.doctor.rules.checkup import judge
from andon.doctor.rules.facts import BookFolder, FileAccess, RunningServer, SampleTrial, StrayFiles
from andon.doctor.rules.findings import Check, CheckResult, Grade
from tests.support.doctor.case import FAIL, Case, case, own
from tests.support.doctor.hardware import device_files, drivers, libraries, sleepers, versions
from tests.support.doctor.machines import (
    FOLDER,
    SAFE,
    TOKEN,
    amd,
    find,
    laptop,
    no_gpu,
    server,
    snapshot,
    wrong,
)
from tests.support.doctor.security import books, exposures, secure, servers, strays
from tests.support.doctor.surroundings import containers, devices, masks, systems
from tests.support.doctor.table import CASES, produced
from tests.support.rows import rows
from tests.support.snapshots import farm


def test_a_case_knows_what_it_expects() -> None:
    made = case("x", server(), (Check.NOUVEAU, FAIL), says="a|b")
    assert made.expected == {(Check.NOUVEAU, FAIL)}
    assert made.says == ("a", "b")


def test_the_machines_are_what_they_are_called() -> None:
    assert server().answers("nvidia")
    assert not no_gpu().anything_answers
    assert laptop().answers("nvidia"), "a sleeping card was not lost"
    assert amd().answers("amd")
    assert len(farm().devices) > len(snapshot().devices)


@rows("made", CASES, ids=lambda made: made.name)
def test_exactly_what_is_wrong_is_found(made: Case) -> None:
    findings = judge(made.facts)
    assert wrong(findings) == made.expected
    text = "\n".join(f"{finding.message}\n{finding.fix}{finding.hint}" for finding in findings)
    for words in made.says:
        assert words in text


def reads_well(finding: CheckResult) -> bool:
    """Whatever is wrong has one fix or one hint, and nothing else has any."""
    if finding.grade in (Grade.FAILURE, Grade.WARNING):
        is_helpful = bool(finding.fix) != bool(finding.hint)
    else:
        is_helpful = not finding.fix + finding.hint
    text = finding.message + finding.fix + finding.hint
    is_clean = "\n" not in text and "None" not in text
    return bool(finding.message) and is_helpful and is_clean and finding.message[-1] not in ". "


@pytest.mark.slow
def test_every_finding_reads_well_and_whatever_is_wrong_has_a_fix() -> None:
    found = [(made.name, finding) for made in CASES for finding in judge(made.facts)]
    bad = [f"{name}: {finding}" for name, finding in found if not reads_well(finding)]
    assert not bad, "\n".join(bad)


def test_there_are_hundreds_of_cases_and_each_has_its_name() -> None:
    names = [made.name for made in CASES]
    assert len(names) == len(set(names))
    assert len(names) >= 180


def test_every_finding_there_is_comes_from_some_case() -> None:
    assert produced() == set(Check)


def test_models_that_are_not_named_are_counted() -> None:
    """V23: eight models, of which three were named as if they were all."""
    eight = snapshot(8)
    named = tuple(
        replace(one, device=replace(one.device, name=f"H10{n}"))
        for n, one in enumerate(eight.devices)
    )
    facts = replace(server(), trial=SampleTrial(replace(eight, devices=named), 0.3))
    said = find(facts, Check.DEVICES_RESPOND).message
    assert said.endswith("H100, H101, H102 and 5 more models"), said
    three = replace(server(), trial=SampleTrial(replace(eight, devices=named[:3]), 0.3))
    assert find(three, Check.DEVICES_RESPOND).message.endswith("H100, H101, H102")


def test_a_path_from_outside_is_quoted_in_what_is_to_be_typed() -> None:
    nasty = "/tmp/x; rm -rf ~"
    facts = own(secure(), books=(BookFolder(nasty, "bob", 1001, 0o777),), book_place=nasty)
    facts = replace(
        facts,
        security=replace(
            SAFE,
            state=(replace(FOLDER, path=nasty, mode=0o755), replace(TOKEN, path=nasty, mode=0o644)),
            config=FileAccess("settings", nasty, "alice", 1000, 0o666),
            server=RunningServer(nasty, 1, lives=False),
        ),
    )
    wrong = [f for f in judge(facts) if f.grade in (Grade.FAILURE, Grade.WARNING)]
    assert len(wrong) == 5
    for finding in wrong:
        assert nasty not in finding.fix.replace(f"'{nasty}'", "")


def test_a_comment_in_a_fix_is_not_broken_in_two() -> None:
    """The second half would be a command of its own when it is pasted."""
    for made in (*books(), *strays(), *exposures(), *servers()):
        for finding in judge(made.facts):
            if finding.check.area == "security":
                *lines, _ = broken_command(finding.fix, 80 - 18) or [""]
                assert not any("#" in line for line in lines), finding.fix


def test_facts_of_a_book_have_no_place_for_a_name_of_a_file() -> None:
    """Whoever writes into the book chooses names; root pastes what is told here."""
    assert set(StrayFiles.__struct_fields__) == {"odd", "owner", "uid", "count"}
    assert all(isinstance(check, Check) for made in strays() for check, _ in made.expected)


@pytest.mark.parametrize(
    ("groups", "least"),
    [
        ((drivers, sleepers, libraries, versions, device_files), 70),
        ((containers, systems, devices, masks), 70),
        ((books, strays, exposures, servers), 60),
    ],
)
def test_each_area_has_many_cases(
    groups: Sequence[Callable[[], Iterator[Case]]], least: int
) -> None:
    assert sum(1 for group in groups for _ in group()) > least
