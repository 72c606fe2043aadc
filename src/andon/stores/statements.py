"""Loads SQL by name: statements in one file per dialect, migrations in numbered ones."""

import re
from functools import lru_cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@lru_cache
def statements(dialect: str) -> dict[str, str]:
    """Returns every named statement of a dialect."""
    text = (files("andon.stores") / "sql" / dialect / "statements.sql").read_text("utf-8")
    parts = _NAME.split(text)[1:]
    found = {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}
    matching = found.get("matching", "")  # what several searches share
    return {name: sql.replace("{matching}", matching) for name, sql in found.items()}


@lru_cache
def migrations(dialect: str) -> tuple[str, ...]:
    """Returns the steps from an empty database to the current schema."""
    folder = files("andon.stores") / "sql" / dialect / "migrations"
    found = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple(file.read_text("utf-8") for file in found)
