"""One name, one thing: no public class name of andon stands for two things."""

import ast
from collections import defaultdict
from pathlib import Path

import andon

SOURCE = Path(andon.__file__).parent
SHAPES = SOURCE / "web" / "answers"  # the same things once more, as OpenAPI describes them


def test_no_public_class_name_is_used_for_two_things() -> None:
    places = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        if SHAPES not in path.parents:
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(SOURCE)))
    assert len(places) > 300
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_folder_is_a_hall() -> None:
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    crowded = {str(f.relative_to(SOURCE)): len(list(f.glob("*.py"))) for f in folders}
    assert {name: count for name, count in crowded.items() if count > 26} == {}  # and __init__
