"""The lamps, the lists, `andon`, `why` and `top` say the same of every story."""

import re

from andon.alerts.rules import listing
from andon.alerts.rules.lamps import board
from andon.alerts.rules.overview import AlertOverview
from andon.cli.show.alerts import render_alerts
from andon.cli.show.render import render_status
from andon.cli.show.text import painted
from andon.cli.show.why import answer, render_why
from andon.explain.conditions.rulebook import Rulebook
from tests.support.alert_stories import Story, stories
from tests.support.rows import rows

SHAPES = {"green": "●", "ring": "◎", "amber": "▲", "red": "✕", "grey": "◌"}


def test_what_each_story_says() -> None:
    said = {}
    for story in stories():
        found = board(story.snapshot, story.alerts)
        counts = listing.counts(listing.entries(story.alerts))
        words = {d.index: d.status for d in found.devices if str(d.lamp) != "green"}
        troubled = sum(d.is_troubled for d in found.devices)
        badge = counts.critical + counts.warning
        said[story.name] = (found.headline, str(found.lamp), words, troubled, badge)
    assert said == {s.name: (s.headline, s.lamp, s.words, s.troubled, s.badge) for s in stories()}


@rows("story", stories(), ids=lambda story: story.name)
def test_every_surface_says_the_same(story: Story) -> None:
    seen, lit = story.snapshot, board(story.snapshot, story.alerts)
    shapes = [SHAPES[str(one.lamp)] for one in lit.devices]
    table = painted(render_status(seen, 120, now=seen.at, lit=lit.devices))
    assert [line[0] for line in table.splitlines()[2:6]] == shapes
    why = painted(render_why(answer([seen], None, Rulebook(), lit.devices), 120))
    assert sorted(re.findall(r"^([●◎▲✕◌]) ", why, re.M)) == sorted(shapes)
    first = next(iter(listing.entries(story.alerts)), None)
    page = AlertOverview(seen.node, seen.at, story.alerts)
    text = painted(render_alerts(page, 200))
    if story.badge:
        assert first is not None
        assert first.alert.id == lit.headline_alert
        worst = max(lit.devices, key=lambda one: one.urgency)
        assert (worst.uuid, worst.rule) == (first.alert.subject, first.alert.rule)
        assert why.splitlines()[2].startswith(f"{SHAPES[story.lamp]} GPU {worst.index}")
        assert text.splitlines()[3].startswith(SHAPES[story.lamp])
    else:
        assert "No active alerts" in text
        assert not any(one.is_troubled for one in lit.devices)
