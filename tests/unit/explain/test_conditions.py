"""What holds for every condition: its file, its texts, its figures, its reasons and its tests."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter

import pytest
from dev.metrics.__main__ import made
from dev.metrics.conditions import tables_of

from andon.explain import conditions
from andon.explain.conditions.catalogue import (
    BY_NAME,
    CONDITIONS,
    DEFAULTS,
    FIGURES,
    GROUPS,
    RULES,
)
from andon.explain.conditions.condition import Condition, Rung, Subject
from andon.explain.conditions.judging import OnRequest
from andon.model.alert import Level
from andon.model.lamp import Lamp
from andon.model.thresholds import Thresholds
from tests.support.sources import sources

FOLDER = Path(conditions.__path__[0])
NO_FIGURES = frozenset(dir(Thresholds)) | frozenset(dir(dict))
"""The attributes that are not figures."""
SENTENCE = re.compile(r"(?:[A-Z{]|andon ).*\.", re.DOTALL)
NO_TIMELINE: dict[str, str] = {
    "notifier": "a notifier is in no timeline: tests/integration/alerts/test_alert_failures.py"
}
NO_SITUATION: dict[str, str] = {}


def modules() -> Iterator[tuple[str, str]]:
    """Every module that defines a condition: its name, and its source."""
    for path in sorted(FOLDER.glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(r"^CONDITION = ", text, re.MULTILINE):
            yield path.stem, text


@cache
def used_figures(source: str) -> frozenset[str]:
    """The attributes of `figures`, `x.figures` and `x.thresholds`, which no type checker knows."""
    found: set[str] = set()
    if "figures." not in source and "thresholds." not in source:  # most; parsing takes long
        return frozenset()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            holder = node.value
            name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
            if name in ("figures", "thresholds"):
                found.add(node.attr)
    return frozenset(found - NO_FIGURES)


def named_in(text: str) -> set[str]:
    """The names in braces."""
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def texts(condition: Condition) -> list[str]:
    rungs = [text for one in condition.rungs for text in (one.condition, one.clear_condition)]
    return [condition.why, *rungs]


def lights(rung: Rung) -> bool:
    """Whether its lamp is not green."""
    return rung.level is not Level.INFO if rung.lamp is None else rung.lamp is not Lamp.GREEN


# Files and names.


def test_a_condition_is_one_file_that_has_its_name() -> None:
    found = [name for name, _ in modules()]
    assert sorted(found) == sorted(one.name for one in CONDITIONS)
    assert [name for name, count in Counter(found).items() if count > 1] == []
    assert len(BY_NAME) == len(CONDITIONS)
    assert sorted(one.name for group in GROUPS for one in group.conditions) == sorted(BY_NAME)


def test_a_file_begins_with_what_is_wrong_and_no_two_do_so_alike() -> None:
    docs = {name: re.match(r'"""(.+)', text) for name, text in modules()}
    firsts = {name: "" if doc is None else doc[1].removesuffix('"""') for name, doc in docs.items()}
    assert {name: doc for name, doc in firsts.items() if not SENTENCE.fullmatch(doc)} == {}
    assert [doc for doc, count in Counter(firsts.values()).items() if count > 1] == []


# Figures.


@pytest.mark.slow
def test_every_figure_that_is_used_is_declared() -> None:
    undeclared = {
        path: unknown
        for path, text in sources().items()
        if (unknown := used_figures(text) - FIGURES.keys())
    }
    assert undeclared == {}


@pytest.mark.parametrize("text", ["seen.figures.termal", "figures.termal", "x.thresholds.termal"])
def test_a_misspelt_figure_is_found(text: str) -> None:
    assert used_figures(text) == {"termal"}
    assert used_figures("figures.changed({}); seen.figures.off") == set()


def test_every_figure_is_declared_once_and_used() -> None:
    declared = [figure.name for one in CONDITIONS for figure in one.figures]
    assert sorted(declared) == sorted(FIGURES)
    used = {name for _, text in modules() for name in used_figures(text)}
    used |= {name for p in FOLDER.glob("*/*.py") for name in used_figures(p.read_text("utf-8"))}
    used |= {rung.for_figure for one in RULES for rung in one.rungs if rung.for_figure}
    assert sorted(set(declared) - used) == []


def test_a_figure_has_a_unit_bounds_and_one_line_of_help() -> None:
    bad = [
        figure.name
        for figure in FIGURES.values()
        if not (figure.low <= figure.default <= figure.high)
        or not re.fullmatch(r"[a-z].*[^.]", figure.help)
        or figure.unit not in ("celsius", "percent", "seconds", "bytes")
    ]
    assert bad == []


def test_a_condition_has_at_most_one_figure_that_turns_it_off_and_only_a_rule_has_one() -> None:
    switches = {one.name: sum(f.switch for f in one.figures) for one in CONDITIONS}
    assert {name for name, count in switches.items() if count > 1} == set()
    assert [one.name for one in CONDITIONS if one.figures and not one.threshold] == []
    assert [one.name for one in CONDITIONS if one.figures and not one.rungs] == []


def test_a_duration_is_set_by_a_figure_of_the_condition_itself() -> None:
    for one in RULES:
        own = {figure.name: figure.default for figure in one.figures}
        for rung in one.rungs:
            if rung.for_figure is not None:
                assert own[rung.for_figure] == rung.for_seconds, one.name


def test_no_text_names_a_number_that_is_not_declared_and_none_is_declared_for_nothing() -> None:
    for one in CONDITIONS:
        numbers = set() if one.numbers is None else set(one.numbers(DEFAULTS))
        named = {name for text in texts(one) for name in named_in(text)}
        assert named - numbers - FIGURES.keys() == set(), one.name
        assert numbers - named == set(), one.name


# What is said.


def test_every_condition_says_what_it_means_and_what_to_do() -> None:
    for one in CONDITIONS:
        assert re.fullmatch(r"[A-Z][^.]*", one.title), one.name
        assert SENTENCE.fullmatch(one.why), one.name
        assert one.advice, one.name
        assert named_in(one.advice) == set(), one.name
        assert one.rungs or one.kinds, f"{one.name} is mentioned nowhere"


def test_every_condition_is_judged_once_and_described_once() -> None:
    for one in CONDITIONS:
        on_request = isinstance(one.judged, OnRequest)
        assert one.judged is not None, one.name
        assert on_request == (not one.rungs), one.name
        assert (one.describe is None) == on_request, one.name
        assert bool(one.promql) == bool(one.rungs), one.name


def test_what_lights_the_lamp_of_a_device_has_a_word_and_a_headline() -> None:
    for one in RULES:
        if one.subject_kind is Subject.DEVICE and any(map(lights, one.rungs)):
            assert one.label, one.name
            assert one.headline, one.name
            assert len(one.label) <= 17, one.name


def test_the_queries_are_those_of_the_rungs_or_there_is_a_reason() -> None:
    for one in RULES:
        if not isinstance(one.promql, str):
            assert len(one.promql) == len(one.rungs), one.name
            assert any(one.promql), one.name


def test_levels_rise_and_a_weight_stays_within_its_level() -> None:
    for one in RULES:
        ranks = [rung.level.rank for rung in one.rungs]
        assert ranks == sorted(ranks), one.name
        assert 0 <= one.weight <= 19, one.name
    assert [one.name for one in RULES if one.to_owner] == ["reservation_ahead"]
    assert [one.name for one in CONDITIONS if not one.rungs and one.weight] == []


def test_what_stands_behind_another_names_a_condition() -> None:
    names = {one.name for one in CONDITIONS}
    assert {one.name: one.behind for one in CONDITIONS if not set(one.behind) <= names} == {}


# Reasons.


def test_every_reason_has_a_code_of_its_own_and_a_meaning() -> None:
    found = {kind for one in CONDITIONS for kind in one.kinds}  # conditions may share one
    codes = Counter(kind.code for kind in found)
    assert [code for code, count in codes.items() if count > 1] == []
    for one in CONDITIONS:
        for kind in one.kinds:
            assert re.fullmatch(r"[a-zA-Z].*[^.]", kind.means), kind.code
            assert 0 <= (kind.mild or 0) <= kind.weight <= 100, kind.code


# Tests and docs.


def test_every_rule_has_a_timeline_and_every_other_condition_a_situation() -> None:
    found = tables_of()
    untested = [one.name for one in RULES if not found[one.name].timelines]
    assert untested == sorted(NO_TIMELINE)
    untold = [one.name for one in CONDITIONS if not one.rungs and not found[one.name].situations]
    assert untold == sorted(NO_SITUATION)


def test_the_page_has_each_condition_once_and_every_link_on_it_leads_somewhere() -> None:
    page = made()["docs/conditions.md"]
    headings = re.findall(r"^###? (.+)$", page, re.MULTILINE)
    assert sorted(name for name in headings if name in BY_NAME) == sorted(BY_NAME)
    assert len(headings) == len(BY_NAME) + len(GROUPS)
    assert set(re.findall(r"\]\(#(\w+)\)", page)) == BY_NAME.keys()


def test_the_page_is_for_users() -> None:
    """It had 1,304 lines, the names of test files and queries of 2,000 characters."""
    page = made()["docs/conditions.md"]
    assert not re.findall(r"tests/|promql|\.txt|\.py\b", page)
    assert page.count("\n") < 15 * len(BY_NAME)
    assert max(map(len, page.splitlines())) <= 100
