"""One condition on one page: what it means, its levels and thresholds, its reasons and queries."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from andon.explain.conditions.catalogue import FIGURES, GROUP_OF, RULES_OF, kinds_of
from andon.explain.conditions.condition import READINGS, Condition, Precondition
from andon.explain.conditions.prometheus import no_query_reason, rung_queries
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.conditions.stated import stated
from andon.explain.evidence.reasons import TROUBLE_FROM, ReasonKind
from andon.model.device import DeviceStatus
from andon.model.shapes import to_json
from andon.model.thresholds import Figure, Thresholds
from andon.model.wire import Json
from andon.settings.figures import setting_of
from andon.web.answers import schemas
from andon.web.answers.alert_payloads import (
    Labelled,
    inactive_here,
    labelled,
    on_devices,
    rungs_to_json,
)

RULE_SCHEMA = "andon.rule/1"
NEVER_AN_ALERT = "never an alert: only andon why mentions it"


class RuleContext(NamedTuple):
    """What the page depends on besides the condition."""

    rulebook: Rulebook
    statuses: Sequence[DeviceStatus] = ()
    awake: frozenset[Precondition] = READINGS
    prefix: str = "andon"  # of the metrics


def rule_to_json(condition: Condition, here: RuleContext) -> Json:
    """andon.rule/1."""
    page = rule_page(condition, here)
    levels = rungs_to_json(stated(condition, here.rulebook.thresholds))
    return {"schema": RULE_SCHEMA, **to_json(page), "levels": levels}


def rule_page(condition: Condition, here: RuleContext) -> schemas.RulePage:
    """The page, with the thresholds in effect here."""
    figures, devices = here.rulebook.thresholds, labelled(here.rulebook, here.statuses)
    rule, is_rule = stated(condition, figures), bool(condition.rungs)
    reason = inactive_here(rule, here.rulebook, here.awake) if is_rule else NEVER_AN_ALERT
    return schemas.RulePage(
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
        behind=list(rule.behind),
        figures=[_figure(one, figures) for one in (*rule.figures, *_borrowed(condition))],
        devices=on_devices(rule, devices, here.rulebook),
        overrides=[row for one in devices for row in _overrides(rule, one, here.rulebook)],
        reasons=[_reason(kind) for kind in kinds_of(rule)],
        queries=[
            schemas.QueryRow(one.alert, one.rung.level, one.query)
            for one in rung_queries(rule, figures, here.prefix)
        ],
        no_query_reason=no_query_reason(rule) or None,
    )


def _borrowed(condition: Condition) -> Iterator[Figure]:
    """Yields the thresholds of other conditions that its texts name."""
    rungs = (text for one in condition.rungs for text in (one.condition, one.clear_condition))
    texts = "".join((condition.why, *rungs))
    own = {figure.name for figure in condition.figures}
    return (one for name, one in FIGURES.items() if f"{{{name}}}" in texts and name not in own)


def _figure(figure: Figure, figures: Thresholds) -> schemas.FigureRow:
    setting, is_off = setting_of(figure), RULES_OF.get(figure.name) in figures.off
    return schemas.FigureRow(
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


def _overrides(rule: Condition, one: Labelled, rulebook: Rulebook) -> Iterator[schemas.OverrideRow]:
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
        yield schemas.OverrideRow(device.uuid, label, name, value, place)


def _reason(kind: ReasonKind) -> schemas.ReasonRow:
    return schemas.ReasonRow(kind.code, kind.means, kind.weight >= TROUBLE_FROM)
