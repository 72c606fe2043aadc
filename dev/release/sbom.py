"""The parts that a package bundles, in CycloneDX 1.6; the same file whenever it is written."""

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from dev.release.contents import Bundled
from dev.release.packages import digest, epoch, version

SPACE = uuid.UUID("6f1d9f63-5d2c-4c2b-9a55-64d5b0a7c5e1")


def bill(package: Path, bundled: Sequence[Bundled]) -> dict[str, object]:
    """The bill of materials of a package."""
    whole = digest(package)
    root = {
        "type": "application",
        "bom-ref": package.name,
        "name": "andon",
        "version": version(),
        "purl": f"pkg:pypi/andon@{version()}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "hashes": [{"alg": "SHA-256", "content": whole}],
    }
    parts = [
        {
            "type": "library",
            "bom-ref": f"{one.url}#{one.hashed[1][:12]}",
            "name": one.name,
            "version": one.version,
            "purl": one.url,
            "licenses": [{"license": {"id": one.licence}}],
            "hashes": [{"alg": one.hashed[0], "content": one.hashed[1]}],
        }
        for one in bundled
    ]
    refs = [str(part["bom-ref"]) for part in parts]
    written = datetime.fromtimestamp(int(epoch()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(SPACE, whole)}",
        "version": 1,
        "metadata": {"timestamp": written, "component": root},
        "components": parts,
        "dependencies": [{"ref": package.name, "dependsOn": refs}, *({"ref": r} for r in refs)],
    }


def write(package: Path, bundled: Sequence[Bundled]) -> Path:
    """Writes the bill beside the package."""
    target = package.with_name(f"{package.name}.cdx.json")
    text = json.dumps(bill(package, bundled), indent=1)
    target.write_text(f"{text}\n", encoding="utf-8")
    return target
