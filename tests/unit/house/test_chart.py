"""The chart of andon on Kubernetes: its rendered form is that of its files, and its rights few."""

from hashlib import sha256
from typing import Any

import yaml  # type: ignore[import-untyped]

from andon.cli.catalogue import COMMANDS, load
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "deploy/kubernetes"
RENDERED = (FOLDER / "andon.yaml").read_text()
OBJECTS = [one for one in yaml.safe_load_all(RENDERED) if one]


def named(kind: str, name: str) -> Any:
    (found,) = [o for o in OBJECTS if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


def test_the_rendered_form_is_that_of_the_chart() -> None:
    chart = FOLDER / "chart"
    files = [chart / "Chart.yaml", chart / "values.yaml", *sorted((chart / "templates").iterdir())]
    digest = sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    assert f"wrote it: {digest}." in RENDERED, "run dev/chart"


def test_the_agent_has_no_rights_and_changes_nothing() -> None:
    assert named("ServiceAccount", "andon-agent")["automountServiceAccountToken"] is False
    bound = [one for one in OBJECTS if one["kind"].endswith("RoleBinding")]
    names = {subject["name"] for one in bound for subject in one["subjects"]}
    assert names == {"andon-hub"}
    pod = named("DaemonSet", "andon-agent")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    security = pod["containers"][0]["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"]["drop"] == ["ALL"]
    assert "readinessProbe" in pod["containers"][0]


def test_each_secret_is_where_it_is_needed_alone() -> None:
    agent = named("DaemonSet", "andon-agent")["spec"]["template"]["spec"]
    (token,) = [m for m in agent["containers"][0]["volumeMounts"] if m["name"] == "tokens"]
    assert token["subPathExpr"] == "$(ANDON_NODE)"  # that of its own node
    assert all(m.get("readOnly") for m in agent["containers"][0]["volumeMounts"][2:])
    hub = named("Deployment", "andon-hub")["spec"]["template"]["spec"]
    secrets = [one["secret"]["secretName"] for one in hub["volumes"] if "secret" in one]
    (url,) = hub["containers"][0]["env"]
    assert secrets == ["andon-hub"]
    assert url["valueFrom"]["secretKeyRef"] == {"name": "andon-database", "key": "url"}
    assert all(m["name"] != "secret" for m in hub["containers"][0]["volumeMounts"])


def test_the_hub_is_not_root_and_may_only_read_nodes_and_manage_jobs() -> None:
    pod = named("Deployment", "andon-hub")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    every = [*pod["containers"], *pod["initContainers"]]
    assert all(one["securityContext"]["readOnlyRootFilesystem"] for one in every)
    (reads,) = named("ClusterRole", "andon-read")["rules"]
    assert reads == {
        "apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"],
    }  # fmt: skip
    manages = named("Role", "andon-jobs")
    assert manages["metadata"]["namespace"] == "default"
    changed = [one["resources"] for one in manages["rules"] if "create" in one["verbs"]]
    assert changed == [["jobs"]]


def test_a_pod_is_checked_by_an_init_container_with_the_same_gpus() -> None:
    [job] = [one for one in yaml.safe_load_all((FOLDER / "check.yaml").read_text()) if one]
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never", "else the same pod would try for ever"
    [check], [work] = pod["initContainers"], pod["containers"]
    gpus = [one["resources"]["limits"]["nvidia.com/gpu"] for one in (check, work)]
    assert gpus[0] == gpus[1]
    program, command, *options = check["command"]
    assert (program, command) == ("andon", "check")
    load(COMMANDS[command].target).make_context(command, options).close()
    environment = {one["name"]: one["value"] for one in check["env"]}
    assert "compute" in environment["NVIDIA_DRIVER_CAPABILITIES"], "libcuda is not there without"
    written = {one["mountPath"] for one in check["volumeMounts"]}
    assert environment["XDG_STATE_HOME"] in written
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert check["securityContext"]["readOnlyRootFilesystem"] is True
    assert check["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert pod["automountServiceAccountToken"] is False
