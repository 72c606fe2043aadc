"""The rules of alerts as a list, and one condition on one page: its levels, thresholds, reasons
and queries."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

from msgspec import Struct

from andon.explain.conditions.catalogue import (
    BY_NAME,
    CONDITIONS,
    FIGURES,
    GROUP_OF,
    RULES,
    RULES_OF,
)
from andon.explain.conditions.condition import (
    READINGS,
    Condition,
    Precondition,
    Rung,
    Seconds,
    Subject,
    inactive_reason,
)
from andon.explain.conditions.prometheus import no_query_reason, rung_queries
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.conditions.with_figures import with_figures
from andon.explain.evidence.reasons import TROUBLE_FROM, ReasonKind
from andon.model.alert import Level
from andon.model.codec import Index, JsonDocument, Name, Number, Text
from andon.model.device import Device, DeviceStatus
from andon.model.naming import device_labels
from andon.model.shapes import Doc
from andon.model.thresholds import Figure, Thresholds
from andon.settings.figures import setting_of

Labelled = tuple[Device, str]
"""A device and its label."""
NEVER_AN_ALERT = "never an alert: only andon why mentions it"


class OnDevice(Struct, frozen=True):
    """A rule's threshold for one device, and the limit that the device itself reports."""

    uuid: Name
    index: Index
    label: Name
    threshold: Number | None
    limit: Number | None
    disabled: bool


def _check_reason(rule: "RuleRow | RulePage") -> None:
    if not rule.active and rule.inactive_reason is None:
        raise ValueError("is inactive without a reason")


class RuleRow(Struct, frozen=True):
    """One alert rule."""

    name: Name
    title: Text
    subject_kind: Name
    level: Level
    for_seconds: Seconds
    clear_seconds: Seconds
    threshold: Number | None
    unit: Name
    why: Text
    advice: Text
    active: bool
    inactive_reason: Text | None
    levels: list[Rung]
    devices: list[OnDevice]

    def __post_init__(self) -> None:
        _check_reason(self)


class ConditionRow(Struct, frozen=True):
    """A condition that is never an alert: only `andon why` mentions it."""

    name: Name
    title: Text
    why: Text


class RuleList(JsonDocument, frozen=True):
    """andon.rules/1."""

    schema = "andon.rules/1"
    rules: list[RuleRow]
    explained_only: Annotated[
        list[ConditionRow], Doc("conditions that are never alerts: only `andon why` mentions them")
    ]


class FigureRow(Struct, frozen=True):
    """A threshold of a rule, its value in force, and the setting that changes it."""

    name: Name
    setting: Annotated[Name, Doc("its place in the file: alerts.thermal_celsius")]
    variable: Name
    help: Text
    value: Annotated[Number | None, Doc("null if it is off")]
    default: Number
    least: Number
    most: Number
    can_be_off: bool
    unit: Name


class OverrideRow(Struct, frozen=True):
    """A threshold that is different for one device, and the table that sets it."""

    uuid: Name
    label: Name
    figure: Name
    value: Annotated[Number | None, Doc("null if the rule is off for it")]
    place: Annotated[Text, Doc('[[alerts.override]] model = "H200"')]


class ReasonRow(Struct, frozen=True):
    """A reason that `andon why` may give."""

    code: Name
    means: Text
    problem: Annotated[bool, Doc("whether something is wrong then")]


class QueryRow(Struct, frozen=True):
    """One level in PromQL, and the name of its alert in the rule file."""

    alert: Name
    level: Level
    query: Text


class RulePage(JsonDocument, frozen=True):
    """andon.rule/1: everything about one condition, with the thresholds in effect here."""

    schema = "andon.rule/1"
    name: Name
    title: Text
    group: Name
    subject_kind: Name
    level: Annotated[Level | None, Doc("the highest it can reach; null if it is never an alert")]
    label: Annotated[Name, Doc("the word under its lamp; empty if it lights none")]
    why: Text
    advice: Text
    active: bool
    inactive_reason: Text | None
    levels: list[Rung]
    behind: Annotated[list[Name], Doc("rules that explain it: while one fires, it is not sent")]
    figures: list[FigureRow]
    devices: list[OnDevice]
    overrides: list[OverrideRow]
    reasons: list[ReasonRow]
    queries: list[QueryRow]
    no_query_reason: Annotated[Text | None, Doc("why PromQL cannot express it")]

    def __post_init__(self) -> None:
        _check_reason(self)


class RuleContext(NamedTuple):
    """What the page depends on besides the condition."""

    rulebook: Rulebook
    statuses: Sequence[DeviceStatus] = ()
    awake: frozenset[Precondition] = READINGS
    prefix: str = "andon"  # of the metrics


def rule_page(condition: Condition, context: RuleContext) -> RulePage:
    """Returns the page, with the thresholds in effect here."""
    figures, devices = context.rulebook.thresholds, labelled(context.rulebook, context.statuses)
    rule, is_rule = with_figures(condition, figures), bool(condition.rungs)
    reason = inactive_in(rule, context.rulebook, context.awake) if is_rule else NEVER_AN_ALERT
    return RulePage(
        name=rule.name,
        title=rule.title,
        group=GROUP_OF[rule.name],
        subject_kind=str(rule.subject_kind),
        level=rule.level if is_rule else None,
        label=rule.label,
        why=rule.why,
        advice=rule.advice,
        active=reason is None,
        inactive_reason=reason,
        levels=list(rule.rungs),
        behind=[name for name in rule.behind if BY_NAME[name].rungs],
        figures=[_figure(one, figures) for one in (*rule.figures, *_borrowed(condition))],
        devices=on_devices(rule, devices, context.rulebook),
        overrides=[row for one in devices for row in _overrides(rule, one, context.rulebook)],
        reasons=[_reason(kind) for kind in rule.kinds],
        queries=[
            QueryRow(one.alert, one.rung.level, one.query)
            for one in rung_queries(rule, figures, context.prefix)
        ],
        no_query_reason=no_query_reason(rule) or None,
    )


def _borrowed(condition: Condition) -> Iterator[Figure]:
    """Yields the thresholds of other conditions that this condition's texts mention."""
    rungs = (text for one in condition.rungs for text in (one.condition, one.clear_condition))
    texts = "".join((condition.why, *rungs))
    own = {figure.name for figure in condition.figures}
    return (one for name, one in FIGURES.items() if f"{{{name}}}" in texts and name not in own)


def _figure(figure: Figure, figures: Thresholds) -> FigureRow:
    setting, is_off = setting_of(figure), RULES_OF.get(figure.name) in figures.off
    return FigureRow(
        name=figure.name,
        setting=setting.place,
        variable=setting.variable,
        help=figure.help,
        value=None if is_off else getattr(figures, figure.name),
        default=figure.default,
        least=figure.low,
        most=figure.high,
        can_be_off=figure.switch,
        unit=figure.unit,
    )


def _overrides(rule: Condition, one: Labelled, rulebook: Rulebook) -> Iterator[OverrideRow]:
    """Yields thresholds that the settings change for this device; a rule that is off stays off."""
    device, label = one
    fitting = rulebook.overrides_for(device)
    found: dict[str, tuple[float | None, str]] = {}
    for override in fitting:
        mine = (figure.name for figure in rule.figures if figure.name in override.figures)
        found |= {name: (override.figures[name], override.place) for name in mine}
    for override in fitting:
        if rule.name in override.off:
            found[rule.threshold or rule.name] = None, override.place
    for name, (value, place) in found.items():
        yield OverrideRow(device.uuid, label, name, value, place)


def _reason(kind: ReasonKind) -> ReasonRow:
    return ReasonRow(kind.code, kind.means, kind.weight >= TROUBLE_FROM)


# The list of all rules.


def rule_list(
    rulebook: Rulebook, statuses: Sequence[DeviceStatus], awake: frozenset[Precondition] = READINGS
) -> RuleList:
    """Returns all rules, with the thresholds in effect here."""
    devices = labelled(rulebook, statuses)
    return RuleList(
        [_row(with_figures(rule, rulebook.thresholds), rulebook, devices, awake) for rule in RULES],
        [ConditionRow(one.name, one.title, one.why) for one in CONDITIONS if not one.rungs],
    )


def labelled(rulebook: Rulebook, statuses: Sequence[DeviceStatus]) -> list[Labelled]:
    """Returns the devices with their labels, and sets the labels in the rulebook too."""
    rulebook.learn_labels(statuses)
    labels = device_labels(statuses)
    return [(status.device, labels[status.device.uuid]) for status in statuses]


def _row(
    rule: Condition, rulebook: Rulebook, devices: Sequence[Labelled], awake: frozenset[Precondition]
) -> RuleRow:
    reason = inactive_in(rule, rulebook, awake)
    return RuleRow(
        name=rule.name,
        title=rule.title,
        subject_kind=str(rule.subject_kind),
        level=rule.level,
        for_seconds=rule.for_seconds,
        clear_seconds=rule.clear_seconds,
        threshold=_threshold(rule, rulebook.thresholds),
        unit=rule.unit if rule.threshold is None else rule.threshold.rpartition("_")[2],
        why=rule.why,
        advice=rule.advice,
        active=reason is None,
        inactive_reason=reason,
        levels=list(rule.rungs),
        devices=on_devices(rule, devices, rulebook),
    )


def inactive_in(rule: Condition, rulebook: Rulebook, awake: frozenset[Precondition]) -> str | None:
    """Returns why the condition cannot become an alert here; None if it can."""
    if rule.name in rulebook.thresholds.off:
        return "disabled in the settings"
    return inactive_reason(rule, awake)


def on_devices(rule: Condition, devices: Iterable[Labelled], rulebook: Rulebook) -> list[OnDevice]:
    """Returns the devices whose readings are compared with a threshold."""
    if rule.subject_kind is not Subject.DEVICE or rule.threshold is None:
        return []
    return [_on_device(rule, *one, rulebook) for one in devices]


def _on_device(rule: Condition, device: Device, label: str, rulebook: Rulebook) -> OnDevice:
    figures = rulebook.for_device(device)
    return OnDevice(
        uuid=device.uuid,
        index=device.index,
        label=label,
        threshold=_threshold(rule, figures),
        limit=device.limits.slowdown_celsius if rule.name == "thermal" else None,
        disabled=rule.name in figures.off,
    )


def _threshold(rule: Condition, figures: Thresholds) -> float | None:
    found: float | None = None if rule.threshold is None else getattr(figures, rule.threshold)
    return found
