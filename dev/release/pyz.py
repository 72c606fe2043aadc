"""andon.pyz, one file for hosts without pip: `python -m dev.release.pyz [WHEEL [FOLDER]]` (dist).

It has what `andon[top]` needs, at the versions of pyz.txt, and msgspec's compiled module for each
Python and machine below; the server is left out. dev/release/pyz_start.py is its beginning.
"""

import hashlib
import io
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from dev.release.packages import ROOT, epoch

HERE = Path(__file__).parent
WHEELS = ROOT / ".build/wheels/pyz"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
MACHINES = ("x86_64", "aarch64")
COMPILED = "msgspec"
LEFT_OUT = ("andon/web/static/",)
"""The board: there is no server in it."""
START = """\
\"\"\"Where `andon` starts that was unpacked from andon.pyz.\"\"\"

import sys
from pathlib import Path

folder = str(Path(__file__).resolve().parent)
sys.path[:] = [folder, *(one for one in sys.path if one != folder)]

from andon.cli.entry import main  # noqa: E402

if __name__ == "__main__":
    main()
"""


def pinned() -> dict[str, str]:
    """The version of each package that is bundled."""
    lines = (HERE / "pyz.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def bundled_wheels() -> list[Path]:
    """The wheels of all that is bundled beside andon; fetched once, by name and version."""
    wanted = pinned()
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
             "--no-deps", "--only-binary=:all:", "--dest", str(WHEELS)]  # fmt: skip
    plain = [f"{name}=={version}" for name, version in wanted.items() if name != COMPILED]
    calls = [plain] if len(list(WHEELS.glob("*-none-any.whl"))) < len(plain) else []
    core = f"{COMPILED}-{wanted[COMPILED]}"
    calls += [
        ["--python-version", python, f"--platform=manylinux2014_{machine}",
         f"{COMPILED}=={wanted[COMPILED]}"]
        for python in PYTHONS
        for machine in MACHINES
        if not list(WHEELS.glob(f"{core}-cp{python.replace('.', '')}-*{machine}.whl"))
    ]  # fmt: skip
    for call in calls:
        subprocess.run([*fetch, *call], check=True, stderr=subprocess.DEVNULL)
    names = {f"{name.replace('-', '_')}-{version}-" for name, version in wanted.items()}
    return sorted(p for p in WHEELS.glob("*.whl") if p.name.startswith(tuple(names)))


def contents(wheels: list[Path]) -> dict[str, bytes]:
    """The files of wheels, by their names; those of several wheels must be the same."""
    found: dict[str, bytes] = {"start_andon.py": START.encode()}
    for wheel in wheels:
        for name, data in _files(wheel):
            if found.setdefault(name, data) != data and ".dist-info/" not in name:
                raise SystemExit(f"{wheel.name}: {name} is not what another wheel has")
    return dict(sorted(found.items()))


def _files(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            folder, _, file = name.partition("/")
            kept = not folder.endswith(".dist-info") or _is_licence(file)
            if kept and not name.endswith("/") and not name.startswith(LEFT_OUT):
                yield name, opened.read(name)


def _is_licence(file: str) -> bool:
    """Of a package's description its terms stay, and what names it."""
    return file == "METADATA" or "licen" in file.lower() or "copying" in file.lower()


def manifest(files: Mapping[str, bytes], at: int) -> bytes:
    """The list of files: when they were made, then digest, size and name of each."""
    rows = (
        f"{hashlib.sha256(data).hexdigest()} {len(data)} {name}" for name, data in files.items()
    )
    return "".join(f"{row}\n" for row in (at, *rows)).encode()


def packed(files: Mapping[str, bytes], at: int, method: int) -> bytes:
    """A zip file of these, the same whenever and wherever it is made."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method, compresslevel=9) as opened:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, time.gmtime(at)[:6])
            info.compress_type, info.external_attr, info.create_system = method, 0o644 << 16, 3
            opened.writestr(info, data)
    return out.getvalue()


def beginning() -> str:
    return (HERE / "pyz_start.py").read_text(encoding="utf-8")


def write(wheel: Path, target: Path) -> Path:
    """Writes andon.pyz with what is in a wheel of andon."""
    return archive(contents([wheel, *bundled_wheels()]), int(epoch()) // 2 * 2, target)


def archive(files: Mapping[str, bytes], at: int, target: Path, start: str = "") -> Path:
    """Writes files that begin by `pyz_start.py` as one file."""
    listed = manifest(files, at)
    start = start or beginning()
    digest = hashlib.sha256(listed).hexdigest()
    filled = start.replace('DIGEST = ""', f'DIGEST = "{digest}"', 1)
    parts = {"__main__.py": filled.encode(), "manifest": listed}
    inner = {"files.zip": packed(files, at, zipfile.ZIP_DEFLATED)}
    whole = packed({**parts, **inner}, at, zipfile.ZIP_STORED)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.write_bytes(b"#!/usr/bin/env python3\n" + whole)
    draft.chmod(0o755)
    return draft.replace(target)  # in one step: a start may be reading the one before


def main(arguments: list[str]) -> int:
    wheel = Path(arguments[0]) if arguments else max((ROOT / "dist").glob("*.whl"))
    folder = Path(arguments[1]) if arguments[1:] else ROOT / "dist"
    made = write(wheel, folder / "andon.pyz")
    print(f"{made}  {made.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
