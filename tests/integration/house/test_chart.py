"""The chart with the real helm, and what it makes against the schemas of every version."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.long
CHART = "deploy/kubernetes/chart"
VERSIONS = [f"1.{minor}" for minor in range(25, 38)]
EVERY = {
    "image": "registry.example/andon:1", "jobsNamespace": "team", "people": ["researchers"],
    "agent": {"nodeSelector": {"gpu": "yes"}, "runtimeClassName": "nvidia",
              "tokensSecret": "tokens", "kubeletPath": "/data/kubelet",
              "tolerations": [{"key": "gpu", "operator": "Exists"}]},
    "hub": {"replicas": 2, "databaseSecret": "pg", "tokenSecret": "hub", "tlsSecret": "tls",
            "url": "https://hub:26366",
            "allowedNamespaces": [{"matchLabels": {"team": "a"}}]},
}  # fmt: skip
NONE = {"agent": {"nodeSelector": {}, "tolerations": []},
        "hub": {"enabled": False}}  # fmt: skip


@pytest.fixture(scope="module")
def helm() -> str:
    if platform.machine() != "x86_64":
        pytest.skip("the package has helm for x86-64 alone")
    done = subprocess.run([REPOSITORY / "dev/chart", "--helm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(REPOSITORY / done.stdout.strip())


def rendered(helm: str, tmp_path: Path, values: Any) -> str:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    command = [helm, "template", "andon", CHART, "--namespace", "andon", "--values", str(file)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_helm_finds_nothing_wrong(helm: str) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], cwd=REPOSITORY, capture_output=True)
    assert done.returncode == 0, done.stdout


def test_the_rendered_form_is_what_helm_makes(helm: str, tmp_path: Path) -> None:
    kept = (REPOSITORY / "deploy/kubernetes/andon.yaml").read_text()
    assert kept.split("\n", 2)[2] == rendered(helm, tmp_path, {})


@pytest.mark.parametrize("values", [{}, EVERY, NONE], ids=["usual", "every", "none"])
def test_every_version_takes_what_it_makes(helm: str, tmp_path: Path, values: Any) -> None:
    from kubernetes_validate import validate

    objects = [one for one in yaml.safe_load_all(rendered(helm, tmp_path, values)) if one]
    assert objects
    for version in VERSIONS:
        for one in objects:
            validate(one, version, strict=True)


def test_every_version_takes_the_check_before_a_pod() -> None:
    from kubernetes_validate import validate

    text = (REPOSITORY / "deploy/kubernetes/check.yaml").read_text()
    for version in VERSIONS:
        for one in filter(None, yaml.safe_load_all(text)):
            validate(one, version, strict=True)
