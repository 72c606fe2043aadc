"""Judges what is in a package: its files, what it says of itself, and the terms of what is bundled.

Each function returns what is wrong, a line each; nothing if all is well.
"""

import base64
import csv
import hashlib
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path

from dev.release.packages import ROOT, version
from dev.release.pyz import bundled_wheels
from packaging.metadata import InvalidMetadata, Metadata

GOLDEN = ROOT / "tests/golden/wheel.txt"
TERMS = "andon/web/static/licenses.txt"
LOCK = ROOT / "frontend/package-lock.json"
ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "OFL-1.1", "PSF-2.0",
}  # fmt: skip
"""Terms under which a thing may be passed on with andon, as their texts ask for nothing more."""
CLASSIFIED = {"MIT License": "MIT", "BSD License": "BSD-3-Clause"}
WHOLE_TEXT = 300  # characters, below which it is only the name of terms
GRANT = "Permission is hereby granted, free of charge"


@dataclass(frozen=True)
class Bundled:
    """A thing of others that is passed on: its package URL, terms and the hash of its archive."""

    kind: str
    name: str
    version: str
    licence: str
    terms: str
    hashed: tuple[str, str]

    @property
    def url(self) -> str:
        return f"pkg:{self.kind}/{self.name.replace('@', '%40')}@{self.version}"


def names_in(package: Path) -> list[str]:
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return sorted(wheel.namelist())
    with tarfile.open(package) as sdist:
        return sorted(sdist.getnames())


def plain_files(wheel: Path) -> list[str]:
    """The files of a wheel that are not Python, without the version and the hashes of names."""
    found = (name for name in names_in(wheel) if not name.endswith(".py"))
    hashed = (re.sub(r"(/assets/.*)-[\w-]{8}\.", r"\1-HASH.", name) for name in found)
    return sorted(name.replace(f"andon-{version()}", "andon-VERSION") for name in hashed)


def wrong_files(wheel: Path) -> list[str]:
    """Python modules are those that git has; the others are those of the golden list."""
    modules = {name for name in names_in(wheel) if name.endswith(".py")}
    sources = {
        f"andon/{p.relative_to(ROOT / 'src/andon')}" for p in (ROOT / "src/andon").rglob("*.py")
    }
    golden = GOLDEN.read_text(encoding="utf-8").splitlines()
    rows = (
        ("a module is missing", sources - modules),
        ("a module is not in src", modules - sources),
        ("a file is missing", set(golden) - set(plain_files(wheel))),
        ("a file is new", set(plain_files(wheel)) - set(golden)),
    )
    return [f"{what}: {name}" for what, names in rows for name in sorted(names)]


def traces(package: Path, words: Sequence[str]) -> list[str]:
    """Files with a word of the machine that built them, such as a path."""
    sought = [word.encode() for word in words]
    return [
        f"{name} has {word.decode()}"
        for name, data in _contents(package)
        for word in sought
        if word in data
    ]


def _contents(package: Path) -> Iterator[tuple[str, bytes]]:
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    with tarfile.open(package) as sdist:
        for member in sdist.getmembers():
            owner = (member.uid, member.gid, member.uname, member.gname)
            yield f"{member.name} (its owner)", repr(owner).encode()
            if (file := sdist.extractfile(member)) is not None:
                yield member.name, file.read()


def wrong_metadata(wheel: Path, extras: Mapping[str, Sequence[str]]) -> list[str]:
    """What the wheel says of itself, against the one place for each."""
    with zipfile.ZipFile(wheel) as opened:
        folder = next(n for n in opened.namelist() if n.endswith(".dist-info/METADATA"))[:-8]
        text = opened.read(f"{folder}METADATA")
        entry = opened.read(f"{folder}entry_points.txt").decode()
        wrong = _wrong_record(opened, f"{folder}RECORD")
    try:
        said = Metadata.from_email(text, validate=True)
    except ExceptionGroup as group:
        return [*wrong, *(str(one) for one in group.exceptions if isinstance(one, InvalidMetadata))]
    checks = (
        ("version", str(said.version), version()),
        ("name", said.name, "andon"),
        ("licence", said.license_expression, "Apache-2.0"),
        ("python", str(said.requires_python), ">=3.11"),
        ("extras", sorted(said.provides_extra or ()), sorted(extras)),
        ("description", said.description_content_type, "text/markdown"),
        ("command", entry.split(), ["[console_scripts]", "andon", "=", "andon.cli.entry:main"]),
    )
    return [*wrong, *(f"{what} is {seen}, not {due}" for what, seen, due in checks if seen != due)]


def _wrong_record(wheel: zipfile.ZipFile, record: str) -> list[str]:
    rows = {row[0]: row[1] for row in csv.reader(wheel.read(record).decode().splitlines())}
    wrong = []
    for name in wheel.namelist():
        raw = hashlib.sha256(wheel.read(name)).digest()
        due = f"sha256={base64.urlsafe_b64encode(raw).decode().rstrip('=')}"
        if name != record and rows.pop(name, "") != due:
            wrong.append(f"RECORD does not have {name}")
    return wrong + [f"RECORD has {name}" for name in rows if name != record]


def of_the_board(wheel: Path) -> list[Bundled]:
    """What npm installed that is built into the board, with the terms that the wheel carries."""
    with zipfile.ZipFile(wheel) as opened:
        parts = opened.read(TERMS).decode().split(f"\n{'-' * 72}\n\n")
    terms = dict(part.split("\n", 1) for part in parts)
    found = []
    for place, facts in json.loads(LOCK.read_text(encoding="utf-8"))["packages"].items():
        if not place or facts.get("dev") or facts.get("devOptional"):
            continue
        name = place.rpartition("node_modules/")[2]
        text = terms.get(f"{name} {facts['version']}", "").strip()
        licence = facts.get("license") or ("MIT" if GRANT in text else "")
        raw = base64.b64decode(facts["integrity"].removeprefix("sha512-")).hex()
        found.append(Bundled("npm", name, facts["version"], licence, text, ("SHA-512", raw)))
    return found


def of_the_pyz() -> list[Bundled]:
    """The Python packages in andon.pyz."""
    return [_of_wheel(wheel) for wheel in bundled_wheels()]


def _of_wheel(wheel: Path) -> Bundled:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        said = BytesParser().parsebytes(
            opened.read(next(name for name in names if name.endswith(".dist-info/METADATA")))
        )
        terms = [name for name in names if re.search(r"\.dist-info/.*(LICEN|COPYING)", name)]
        heads = [name for name in names if name.count("/") == 0 and name.endswith(".py")]
        text = "\n".join(opened.read(name).decode(errors="replace") for name in terms or heads)
    classes = [one.rpartition(" :: ")[2] for one in said.get_all("Classifier", ())]
    classified = next((CLASSIFIED[one] for one in classes if one in CLASSIFIED), "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    licence = said["License-Expression"] or classified or said["License"] or ""
    name = said["Name"].lower().replace("_", "-")
    return Bundled("pypi", name, said["Version"], licence, text, ("SHA-256", digest))


def wrong_licences(bundled: Sequence[Bundled]) -> list[str]:
    """Things whose terms do not let us pass them on, or whose text is not passed on with them."""
    wrong = []
    for one in bundled:
        if one.licence not in ALLOWED:
            wrong.append(f"{one.name}: its terms are {one.licence or 'unknown'}")
        if len(one.terms) < WHOLE_TEXT:
            wrong.append(f"{one.name}: the text of its terms is not in the package")
    return wrong
