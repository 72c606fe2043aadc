"""Whether the wheel works with every Python that this machine offers: `make pythons`.

These are pyenv's, Debian's, and as root those of newer Debian suites, which debootstrap puts into
.build/debian once (300 MB). Each gets an empty environment, the wheel with all its extras and the
smoke test. What could not be tested is said. Arguments: a wheel, then versions such as 3.14.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.release.packages import ROOT

OLDEST = (3, 11)
WANTED = ("3.11", "3.12", "3.13", "3.14")
"""The versions that the package names."""
SUITE, SUITE_PYTHONS = "forky", ("3.13", "3.14", "3.15")
DEBIAN = ROOT / ".build/debian" / SUITE
WHEELS = ROOT / ".build/wheels"
SMOKE = Path(__file__).with_name("smoke.py")
IN_CHROOT = (
    'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && '
    'root=$1 && shift && exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin LANG=C.UTF-8 "$@"'
)


class Failed(Exception):
    """A Python with which the wheel does not work; the text says how."""


@dataclass(frozen=True)
class Place:
    """A Python: its program, where it is from, and the root of its chroot if it has one."""

    program: str
    origin: str
    root: Path | None = None

    def command(self, *words: str) -> list[str]:
        if self.root is None:
            return list(words)
        return ["unshare", "--mount", "sh", "-c", IN_CHROOT, "sh", str(self.root), *words]

    def version(self) -> str:
        code = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
        done = subprocess.run(
            self.command(self.program, "-c", code), capture_output=True, text=True
        )
        return done.stdout.strip()


def offered() -> Iterator[Place]:
    """Every Python of this machine, the newer of two of one version first."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for found in sorted(pyenv.glob("3.*/bin/python"), reverse=True):
        yield Place(str(found), "pyenv")
    for minor in range(OLDEST[1], OLDEST[1] + 10):
        for folder in ("/usr/bin", "/usr/local/bin"):
            if (program := Path(folder, f"python3.{minor}")).exists():
                yield Place(str(program), "this system's")
    if _may_bootstrap():
        for version in SUITE_PYTHONS:
            yield Place(f"/usr/bin/python{version}", f"Debian {SUITE}, in a chroot", DEBIAN)


def _may_bootstrap() -> bool:
    return os.geteuid() == 0 and shutil.which("debootstrap") is not None


def bootstrap() -> None:
    """Puts a newer Debian into .build/debian, from where this machine's own packages come."""
    if (DEBIAN / "done").exists():
        return
    shutil.rmtree(DEBIAN, ignore_errors=True)
    DEBIAN.parent.mkdir(parents=True, exist_ok=True)
    packages = ",".join(f"python{version}-venv" for version in SUITE_PYTHONS)
    script = "/usr/share/debootstrap/scripts/sid"  # the one script of all suites since
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(DEBIAN)]
    done = subprocess.run([*command, _mirror(), script], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"debootstrap {SUITE}: {done.stdout[-300:]}{done.stderr[-300:]}")
    (DEBIAN / "done").touch()


def _mirror() -> str:
    """Where this machine's packages come from; "" is the default of debootstrap."""
    for file in (*Path("/etc/apt/sources.list.d").glob("debian*"), Path("/etc/apt/sources.list")):
        if file.is_file():
            found = re.search(
                r"^(?:URIs:|deb(?: \[.*\])?)\s+(\S+/debian)/?\s", file.read_text(), re.M
            )
            if found:
                return found[1]
    return ""


def chosen(places: Sequence[Place], versions: Sequence[str]) -> dict[str, Place]:
    """One Python of each version, the first that starts."""
    found: dict[str, Place] = {}
    for place in places:
        named = re.search(r"3\.(\d+)", Path(place.program).name + place.program)
        if named is None or int(named[1]) < OLDEST[1] or named[0] in found:
            continue
        if not versions or named[0] in versions:
            if place.root is not None:
                bootstrap()
            if place.version().startswith(named[0]):
                found[named[0]] = place
    return dict(sorted(found.items(), key=lambda one: int(one[0].partition(".")[2])))


def wheels(wheel: Path, version: str, folder: Path) -> tuple[str, list[str]]:
    """Downloads what the wheel needs for a version; returns what to install, and the extras for
    which a package has no wheel for it."""

    def download(extras: Sequence[str]) -> bool:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        named = f"{wheel}[{','.join(extras)}]"
        options = ["--python-version", version, "--only-binary=:all:", "--dest", str(folder)]
        return subprocess.run([*pip, *options, named], capture_output=True).returncode == 0

    if download(["all"]):
        return "all", []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.findall(r"\w+", project["optional-dependencies"]["all"][0])[1:]
    able = [extra for extra in extras if download([extra])]
    return ",".join(able), [extra for extra in extras if extra not in able]


def try_python(wheel: Path, version: str, place: Place) -> str:
    """Installs the wheel in an empty environment and runs the smoke test; says how it went."""
    base = (place.root or Path("/")) / "tmp"
    with tempfile.TemporaryDirectory(prefix="andon-python.", dir=base) as made:
        folder = Path(made)
        extras, lacking = wheels(wheel, version, WHEELS / version)
        shutil.copytree(WHEELS / version, folder / "wheels")
        shutil.copy2(wheel, folder)
        shutil.copy2(SMOKE, folder)
        inside = Path("/", folder.relative_to(place.root)) if place.root else folder
        python = str(inside / "venv/bin/python")
        pip = (python, "-m", "pip", "install", "--quiet", "--no-index", "--no-cache-dir")
        named = f"{inside / wheel.name}[{extras}]"
        for words in (
            (place.program, "-m", "venv", str(inside / "venv")),
            (*pip, "--find-links", str(inside / "wheels"), named),
            (python, "-m", "pip", "check"),
            (python, str(inside / "smoke.py"), str(inside / "venv/bin/andon")),
        ):
            done = subprocess.run(
                place.command(*words), capture_output=True, text=True, env=_clean(), cwd="/"
            )
            if done.returncode:
                raise Failed(f"{' '.join(words[1:4])}: {done.stdout[-500:]}{done.stderr[-2000:]}")
    return done.stdout.strip() + (f", without {', '.join(lacking)}" if lacking else "")


def _clean() -> dict[str, str]:
    names = ("PYTHON", "ANDON_", "VIRTUAL_ENV", "PIP_")
    return {name: value for name, value in os.environ.items() if not name.startswith(names)}


def try_all(wheel: Path, versions: Sequence[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
    """Tries each Python; returns how those went that worked, and why the others did not."""
    worked: dict[str, str] = {}
    wrong: dict[str, str] = {}
    try:
        places = chosen(list(offered()), versions)
    except Failed as failed:
        places, wrong = {}, {SUITE: str(failed)}
    for version, place in places.items():
        title = f"python {place.version():<8} {place.origin}"
        print(f"  {title:<45} ", end="", flush=True)
        try:
            worked[version] = try_python(wheel, version, place)
        except Failed as failed:
            wrong[version] = str(failed)
        print(worked.get(version) or f"failed: {wrong[version]}", flush=True)
    return worked, wrong


def untested(tried: Collection[str]) -> list[str]:
    """What is not claimed, because nothing here could try it."""
    platform = sysconfig.get_platform()
    out = [f"Python {one} is not on this machine" for one in WANTED if one not in tried]
    return [*out, f"no machine but this one ({platform}, glibc): aarch64, musl, macOS and Windows"]


def main(arguments: list[str]) -> int:
    given = [one for one in arguments if one.endswith(".whl")]
    wheel = Path(given[0]) if given else max((ROOT / "dist").glob("*.whl"))
    versions = [one for one in arguments if not one.endswith(".whl")]
    worked, wrong = try_all(wheel, versions)
    for text in untested({*worked, *wrong} if not versions else WANTED):
        print(f"  not tested: {text}")
    return 1 if wrong or not worked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
