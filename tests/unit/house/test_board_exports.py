"""The board exports what another of its modules uses, and no more."""

import re

from tests.conftest import REPOSITORY

BOARD = REPOSITORY / "frontend"
EXPORTED = re.compile(
    r"^export (?:async )?(?:const|let|function|interface|type|class) (\w+)", re.MULTILINE
)


def test_an_exported_name_is_used_by_another_module_of_the_board() -> None:
    """One that only tests import has to be used in its own."""
    code = {one: one.read_text() for one in sorted((BOARD / "src").rglob("*.ts*"))}
    tests = "\n".join(one.read_text() for one in (BOARD / "tests").glob("*.ts"))
    words = {one: set(re.findall(r"\w+", text)) for one, text in code.items()}
    unused = [
        f"{one.relative_to(BOARD)}: {name}"
        for one, text in code.items() if one.name != "schema.d.ts"
        for name in EXPORTED.findall(text)
        if not any(name in words[other] for other in code if other != one)
        and not (name in tests and len(re.findall(rf"\b{name}\b", text)) > 1)
    ]  # fmt: skip
    assert unused == []
