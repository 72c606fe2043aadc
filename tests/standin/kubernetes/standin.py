"""A whole stand-in of a cluster, and what a test does with it."""

from pathlib import Path
from typing import Any

from tests.standin.kubernetes.api import ApiServer
from tests.standin.kubernetes.controllers import Controllers, StoredPods
from tests.standin.kubernetes.kubelet import Kubelet
from tests.standin.kubernetes.objects import Object, Objects, now

GPU = "nvidia.com/gpu"


class KubernetesStandin:
    """An API server with its controllers and a kubelet; nodes are added by `node`."""

    def __init__(self, controlled: bool = True, certificate: Path | None = None) -> None:
        self.objects = Objects()
        self.kubelet = Kubelet(StoredPods(self.objects))
        self.api = ApiServer(self.objects, self.kubelet, certificate)
        self.controllers = Controllers(self.objects)
        if controlled:
            self.kubelet.start()
            self.controllers.start()

    def node(self, name: str, gpus: int = 4, resource: str = GPU, **more: Any) -> Object:
        """Adds a node; `more` are labels, taints, unschedulable and ready."""
        ready = "True" if more.get("ready", True) else "False"
        condition = {"type": "Ready", "status": ready, "reason": "KubeletReady",
                     "message": "" if ready == "True" else "kubelet stopped posting node status",
                     "lastTransitionTime": now()}  # fmt: skip
        has = {"cpu": "64", "memory": "256Gi", resource: str(gpus), **more.get("has", {})}
        spec: Object = {}
        if more.get("unschedulable"):
            spec["unschedulable"] = True
        if "taints" in more:
            spec["taints"] = more["taints"]
        return self.objects.create(
            "nodes",
            {
                "metadata": {"name": name, "labels": more.get("labels", {})}, "spec": spec,
                "status": {"allocatable": has, "capacity": has, "conditions": [condition]},
            },
        )  # fmt: skip

    def pod(
        self, name: str, node: str, gpus: int, namespace: str = "default", began: str = ""
    ) -> Object:
        """Adds a running pod that no Job made."""
        limits = {GPU: str(gpus)}
        spec: Object = {"containers": [
            {"name": "main", "image": "x", "command": ["sleep", "1000"],
             "resources": {"limits": limits, "requests": limits}}]}  # fmt: skip
        if node:
            spec["nodeName"] = node
        state = {
            "name": "main",
            "state": {"running": {"startedAt": began or now()}},
            "restartCount": 0,
        }
        status = {"phase": "Running" if node else "Pending", "containerStatuses": [state]}
        made = {"metadata": {"name": name}, "spec": spec, "status": status}
        return self.objects.create("pods", made, namespace)

    def namespace(self, name: str) -> None:
        self.objects.create("namespaces", {"metadata": {"name": name}})

    def kubeconfig(self, folder: Path, certificate: Path, namespace: str = "default") -> Path:
        """Writes a kubeconfig for it."""
        return write_kubeconfig(folder / "kubeconfig", self.api.url, certificate, namespace)

    def account(self, folder: Path, certificate: Path) -> Path:
        """Writes what a pod of it finds of its service account."""
        files = {"token": "secret", "namespace": "default", "ca.crt": certificate.read_text()}
        for name, text in files.items():
            (folder / name).write_text(text)
        return folder

    def close(self) -> None:
        self.controllers.close()
        self.kubelet.close()
        self.api.close()


def write_kubeconfig(
    path: Path, url: str, certificate: Path, namespace: str = "default", token: str = "secret"
) -> Path:
    path.write_text(
        f"""apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}", certificate-authority: "{certificate}"}}}}]
users: [{{name: u, user: {{token: "{token}"}}}}]
contexts: [{{name: main, context: {{cluster: c, user: u, namespace: {namespace}}}}}]
current-context: main
"""
    )
    return path
