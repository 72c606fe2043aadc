"""msgspec and pathlib are imported in part, and nothing of them is missing afterwards."""

import subprocess
import sys
from pathlib import Path

import pytest

PARTS = ["inspect", "msgpack", "toml", "yaml"]
SPARED = {
    "datetime",
    "platform",
    "textwrap",
    "typing_extensions",
    "urllib.parse",
    "msgspec._json_schema",
}


def printed(code: str, *, bare: bool = True, first: Path | None = None) -> str:
    path = [*([str(first)] if first else ()), *sys.path]
    begin = "import andon.host.bare_imports\n" if bare else ""
    code = f"import sys\nsys.path[:] = {path!r}\n{begin}{code}"
    command = [sys.executable, "-S", "-c", code]  # -S: without what start-up files import
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="the module uuid needs `platform` elsewhere")
def test_only_the_parts_that_are_used_are_imported() -> None:
    found = set(printed("print(*sys.modules)").split())
    assert {"msgspec.json", "msgspec.structs", "pathlib"} <= found
    assert not found & (SPARED | {f"msgspec.{part}" for part in PARTS})


@pytest.mark.process
@pytest.mark.parametrize("part", PARTS)
def test_every_other_part_is_there_when_it_is_used(part: str) -> None:
    assert printed(f"import msgspec; print(msgspec.{part}.__name__)") == f"msgspec.{part}"
    assert printed(f"import msgspec.{part} as it; print(it.__name__)") == f"msgspec.{part}"
    assert printed(f"from msgspec import {part} as it; print(it.__name__)") == f"msgspec.{part}"


@pytest.mark.process
@pytest.mark.parametrize(
    "used",
    [
        "import msgspec; print(msgspec.json.schema(list[int]), msgspec.json.schema_components([]))",
        "import msgspec; print(msgspec.msgpack.encode([1]), msgspec.inspect.type_info(int))",
        "import msgspec; print(msgspec.toml.decode('a = 1'), msgspec.convert('12' * 16, __import__("
        "'uuid').UUID))",
        "import uuid; print(len(str(uuid.uuid4())), uuid._LINUX, uuid.UUID(int=1))",
        "import datetime, msgspec; print(msgspec.json.decode(b'\"2026-01-02T03:04:05Z\"', type="
        "datetime.datetime), datetime.timedelta(1), datetime.__name__)",
        "import msgspec\nclass A(msgspec.Struct):\n  one: 'int | None'\n  all: \"list['A']\"\n"
        'print(msgspec.json.decode(b\'{"one": 1, "all": [{"one": 2, "all": []}]}\', type=A))',
        "import typing\nclass A:\n  one: 'int'\nprint(typing.get_type_hints(A))",
        "import platform; print(platform.system(), platform.python_version())",
        "from pathlib import Path; print(Path('/a b').absolute().as_uri())",
        "from urllib.parse import quote, urlsplit; print(quote('a b'), urlsplit('http://a/b'))",
    ],
)
def test_they_do_what_they_do_when_they_are_imported_whole(used: str) -> None:
    assert printed(used) == printed(used, bare=False) != ""


@pytest.mark.process
@pytest.mark.parametrize("module", ["msgspec", "msgspec.json"])
def test_an_unknown_name_is_an_error_as_always(module: str) -> None:
    tried = f"import msgspec\ntry: {module}.no\nexcept AttributeError as error: print(error)"
    assert printed(tried) == printed(tried, bare=False) != ""


@pytest.mark.process
def test_a_version_that_needs_more_of_them_is_imported_as_it_is(tmp_path: Path) -> None:
    package = tmp_path / "msgspec"
    package.mkdir()
    for part in (*PARTS, "structs", "json", "_json_schema"):
        (package / f"{part}.py").write_text("")
    (package / "__init__.py").write_text(f"from . import json, structs, {', '.join(PARTS)}\n")
    (package / "structs.py").write_text("replace = None\n")
    (package / "json.py").write_text("from ._json_schema import newer\n")
    (package / "_json_schema.py").write_text("newer = 'of tomorrow'\n")
    code = "import msgspec; print(msgspec.json.newer, msgspec.toml.__name__)"
    assert printed(code, first=tmp_path) == "of tomorrow msgspec.toml"
