"""`python -m dev.metrics [PREFIX]`: writes the pages, the dashboard and the rules."""

import sys
from pathlib import Path

from dev.metrics.alert_behaviour import alert_behaviour
from dev.metrics.conditions import conditions_page
from dev.metrics.dashboard import dashboard
from dev.metrics.index import index
from dev.metrics.page import page
from dev.metrics.rules import rules

REPOSITORY = Path(__file__).parents[2]


def made(prefix: str = "andon") -> dict[str, str]:
    """Every file generated from the catalogues, by its path in the repository."""
    return {
        "docs/metrics.md": page(),
        "docs/alerting.md": alert_behaviour(),
        "docs/conditions.md": conditions_page(),
        "src/andon/explain/conditions/index.py": index(),
        "deploy/grafana/andon.json": dashboard(prefix),
        "deploy/prometheus/andon-rules.yml": rules(prefix),
    }


if __name__ == "__main__":
    for name, text in made(*sys.argv[1:2]).items():
        path = REPOSITORY / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
