"""`make release-check`: builds what would be released, and says whether it can be.

Each step builds on what the steps before it made in a folder of its own; what passed lies in dist
at the end. It takes about ten minutes, of which most are for the environments of the Pythons.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import jsonschema_rs
from dev.release import contents, packages, pythons, pyz, sbom
from dev.release.packages import ROOT
from dev.release.pythons import Failed

SCHEMAS = ROOT / ".build/wheels/cyclonedx"
SHOWN = 12  # of what is wrong
PATIENCE_SECONDS = 120.0
UPGRADE_TESTS = "tests/integration/release/test_upgrades.py"


class Release:
    """What is being checked, in a folder of its own."""

    def __init__(self, folder: Path, versions: list[str]) -> None:
        self.folder, self.versions = folder, versions
        self.made: Mapping[str, Path] = {}
        self.notes: list[str] = []

    @property
    def wheel(self) -> Path:
        return self.made["wheel"]

    def build(self) -> str:
        """Twice, in folders, at times and under settings that differ; the board, too."""
        subprocess.run([sys.executable, str(ROOT / "frontend/build.py")], check=True)
        first = packages.copy_sources(self.folder / "first/clone", board=False)
        packages.build_board(first)
        second = packages.copy_sources(self.folder / "the second/andon")
        self.made = packages.build_all(first, self.folder / "first/of-sdist", self.folder / "dist")
        before = os.umask(0o077)
        again = packages.build_all(
            second, self.folder / "the second/sdist", self.folder / "again",
            TZ="Asia/Kathmandu", LC_ALL="C", HOME=str(self.folder / "no-home"),
        )  # fmt: skip
        os.umask(before)
        for kind, path in self.made.items():
            if packages.digest(path) != packages.digest(again[kind]):
                raise Failed(f"the {kind} is not the same twice: {path} {again[kind]}")
            refuse(contents.traces(path, self._own_words()))
        refuse(contents.wrong_files(self.wheel))
        return "build ok"

    def _own_words(self) -> list[str]:
        """What only this machine has: its folders, its name and where its packages come from."""
        words = [str(self.folder), str(ROOT), sys.prefix, os.environ.get("PIP_INDEX_URL", "")]
        pip = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
            capture_output=True, text=True,
        )  # fmt: skip
        words += [pip.stdout.strip(), socket.gethostname() if "." in socket.gethostname() else ""]
        return [word for word in words if len(word) > 1]

    def offline(self) -> str:
        """As a person does who has the sdist, pip and hatchling, and neither network nor Node."""
        if not packages.without_network():
            self.notes.append("this kernel let no build go without network")
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("sh", "env"):
            (tools / name).symlink_to(shutil.which(name) or "")
        out = self.folder / "offline"
        pip = (
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps",
            "--no-build-isolation", "--wheel-dir", str(out), str(self.made["sdist"]),
        )  # fmt: skip
        env = packages.environment(PATH=str(tools))
        run(*packages.without_network(), *pip, env=env)
        (built,) = out.iterdir()
        if packages.digest(built) != packages.digest(self.wheel):
            raise Failed("the wheel that pip makes of the sdist is another one")
        return "offline from sdist ok"

    def environments(self) -> str:
        worked, wrong = pythons.try_all(self.wheel, self.versions)
        refuse([f"Python {version}: {why}" for version, why in wrong.items()])
        if not worked:
            raise Failed("there is no Python to try")
        self.notes += pythons.untested(pythons.WANTED if self.versions else worked)
        self.notes += [
            f"Python {version}: {how.partition(', ')[2]}"
            for version, how in worked.items()
            if "," in how
        ]
        smoke = {how.partition(",")[0] for how in worked.values()}
        return f"empty venv {' '.join(worked)} ok · {' · '.join(sorted(smoke))}"

    def one_file(self) -> str:
        """andon.pyz: the same twice, works, and a job goes on when it is replaced."""
        made = pyz.write(self.wheel, self.folder / "dist/andon.pyz")
        again = pyz.write(self.wheel, self.folder / "again/andon.pyz")
        if packages.digest(made) != packages.digest(again):
            raise Failed("andon.pyz is not the same twice")
        env = {**packages.environment(), "XDG_CACHE_HOME": str(self.folder / "cache")}
        smoke = (sys.executable, str(pythons.SMOKE), "--core", sys.executable, str(made))
        seen = run(*smoke, env=env).strip()
        self._replaced(made, env)
        self.made = {**self.made, "pyz": made}
        return f"andon.pyz ok ({made.stat().st_size / 1e6:.1f} MB, {seen})"

    def _replaced(self, made: Path, env: Mapping[str, str]) -> None:
        path = self.folder / "andon.pyz"
        shutil.copy2(made, path)
        own = {"XDG_STATE_HOME": str(self.folder / "state"), "ANDON_PORT": "9"}
        env = {**env, **own, "ANDON_LEASE_DIR": str(self.folder / "book")}
        gate = self.folder / "gate"
        os.mkfifo(gate)
        job = (
            "submit",
            "--simulate",
            "2",
            "--",
            "sh",
            "-c",
            f"echo before; cat {gate}; echo after",
        )
        run(sys.executable, str(path), *job, env=env)
        until(lambda: "before" in run(sys.executable, str(path), "logs", "1", env=env))
        shutil.copy2(made, path.with_name("draft"))
        newer = pyz.contents([self.wheel, *pyz.bundled_wheels()])
        newer["andon/version.py"] = newer["andon/version.py"].replace(b'"0.', b'"9.')
        pyz.archive(newer, int(packages.epoch()) // 2 * 2, path)
        if "andon 9." not in run(sys.executable, str(path), "--version", env=env):
            raise Failed("a replaced andon.pyz still starts the one before")
        next_job = ("submit", "--simulate", "2", "--after", "1", "--", "echo", "of the next")
        run(sys.executable, str(path), *next_job, env=env)
        gate.write_text("through the gate\n")
        run(sys.executable, str(path), "jobs", "wait", "1", "2", env=env)
        logs = [run(sys.executable, str(path), "logs", one, env=env) for one in "12"]
        if "after" not in logs[0] or "of the next" not in logs[1]:
            raise Failed(f"a job did not go on when andon.pyz was replaced: {logs}")

    def metadata(self) -> str:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        refuse(contents.wrong_metadata(self.wheel, project["optional-dependencies"]))
        changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        if f"\n## {packages.version()}\n" not in changes or "## Unreleased" in changes:
            raise Failed(f"CHANGELOG.md does not begin with {packages.version()}")
        return "metadata ok"

    def licences(self) -> str:
        board, one_file = contents.of_the_board(self.wheel), contents.of_the_pyz()
        refuse(contents.wrong_licences([*board, *one_file]))
        print(f"  {len(board)} npm packages in the board, {len(one_file)} wheels in andon.pyz")
        return "licences ok"

    def bills(self) -> str:
        """What is bundled, in a file beside each package that the field's schema accepts."""
        validator = schema()
        for package, bundled in (
            (self.wheel, contents.of_the_board(self.wheel)),
            (self.made["pyz"], contents.of_the_pyz()),
        ):
            written = json.loads(sbom.write(package, bundled).read_text(encoding="utf-8"))
            refuse([str(error) for error in validator.iter_errors(written)])
        return "SBOM written"

    def upgrade(self) -> str:
        command = (sys.executable, "-m", "pytest", "-q", UPGRADE_TESTS)
        print(f"  {run(*command).strip().splitlines()[-1]}")
        return "upgrade ok"

    def keep(self) -> None:
        """Puts what passed into dist."""
        out = ROOT / "dist"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.folder / "dist", out)


def refuse(wrong: list[str]) -> None:
    if wrong:
        more = f"\n  and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise Failed("\n  ".join(wrong[:SHOWN]) + more)


def run(*command: str, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    if done.returncode:
        raise Failed(f"{' '.join(command)[-200:]}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > ends:
            raise Failed("a job of andon.pyz does not start")
        time.sleep(0.2)


def schema() -> jsonschema_rs.Draft7Validator:
    """CycloneDX's own schema, out of its Python library, of which nothing else is needed."""
    if not list(SCHEMAS.glob("*.whl")):
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
            "--only-binary=:all:", "--dest", str(SCHEMAS), "cyclonedx-python-lib")  # fmt: skip
    with zipfile.ZipFile(next(SCHEMAS.glob("*.whl"))) as opened:

        def read(name: str) -> dict[str, object]:
            text = opened.read(f"cyclonedx/schema/_res/{name}.SNAPSHOT.schema.json")
            return dict(json.loads(text))

        others = [
            (f"http://cyclonedx.org/schema/{name}.SNAPSHOT.schema.json", read(name))
            for name in ("spdx", "jsf-0.82")
        ]
        registry = jsonschema_rs.Registry(others)
        return jsonschema_rs.Draft7Validator(read("bom-1.6"), registry=registry)


def main(arguments: list[str]) -> int:
    summary: list[str] = []
    with tempfile.TemporaryDirectory(prefix="andon-release.") as folder:
        release = Release(Path(folder), arguments)
        steps = (
            release.build, release.offline, release.metadata, release.licences, release.one_file,
            release.bills, release.upgrade, release.environments,
        )  # fmt: skip
        for step in steps:
            began = time.monotonic()
            try:
                summary.append(step())
            except Failed as failed:
                print(f"{step.__name__} failed: {failed}", file=sys.stderr)
                return 1
            print(f"{summary[-1]}  ({time.monotonic() - began:.0f} s)", flush=True)
        release.keep()
    summary.insert(2, summary.pop())  # the Pythons come last, as they take longest
    for note in release.notes:
        print(f"not tested: {note}")
    print(" · ".join(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
