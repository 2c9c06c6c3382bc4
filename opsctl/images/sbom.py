"""The bill of materials of an image: CycloneDX 1.5 (ECMA-424), JSON.

Components: Debian packages (dpkg's status file), Python packages (their metadata), and the C++
parts of the project's own op library (its build record). No times or random numbers: the same
image gives the same document, byte for byte.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from email.parser import HeaderParser
from typing import Any
from urllib.parse import quote

from opsctl import __version__
from opsctl.images.contents import Contents
from opsctl.model import Json

SPECIFICATION = "1.5"
_NAMESPACE = uuid.UUID("5d2a9c5e-6f0b-4b6e-9a53-6b1f1f6f3c11")
"""Of our serial numbers, which are made of the image's digest."""

_LICENCE = re.compile(r"^License-Expression:\s*(.+)$", re.MULTILINE)


def make_sbom(name: str, digest: str, contents: Contents) -> Json:
    """The document for an image `name` with manifest `digest`."""
    components = [*_debian(contents), *_python(contents), *_own(contents)]
    components.sort(key=lambda component: (component["type"], component["bom-ref"]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, digest)}",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "opsctl",
                                      "version": __version__}]},
            "component": {
                "type": "container",
                "bom-ref": f"{name}@{digest}",
                "name": name,
                "version": digest,
            },
        },
        "components": components,
    }  # fmt: skip


def canonical(sbom: Json) -> str:
    """The document's text."""
    return json.dumps(sbom, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _debian(contents: Contents) -> Iterator[Json]:
    for path, text in contents.kept.items():
        if path != "var/lib/dpkg/status" and not path.startswith("var/lib/dpkg/status.d/"):
            continue
        distribution = _distribution(contents)
        for paragraph in text.split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
            installed = fields.get("Status", "install ok installed").endswith(" installed")
            if "Package" in fields and "Version" in fields and installed:
                yield _debian_component(fields, distribution)


def _debian_component(fields: dict[str, str], distribution: str) -> Json:
    name, version = fields["Package"], fields["Version"]
    query = f"?arch={fields.get('Architecture', 'all')}&distro={distribution}"
    vendor = distribution.split("-")[0]
    purl = f"pkg:deb/{vendor}/{quote(name, safe='')}@{quote(version, safe='')}{query}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _distribution(contents: Contents) -> str:
    text = contents.kept.get("etc/os-release") or contents.kept.get("usr/lib/os-release") or ""
    fields = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', text, re.MULTILINE))
    return f"{fields.get('ID', 'debian')}-{fields.get('VERSION_ID', '')}".strip("-")


def _python(contents: Contents) -> Iterator[Json]:
    for path, text in contents.kept.items():
        if not path.endswith("/METADATA"):
            continue
        fields = HeaderParser().parsestr(text)
        name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
        purl = f"pkg:pypi/{name}@{quote(fields['Version'], safe='')}"
        component: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name,
                                     "version": fields["Version"], "purl": purl}  # fmt: skip
        licence = _LICENCE.search(text)
        if licence:
            component["licenses"] = [{"expression": licence.group(1).strip()}]
        yield component


def _own(contents: Contents) -> Iterator[Json]:
    """The op library: its libraries by instruction set, and each operator inside."""
    for path, text in contents.kept.items():
        if not path.endswith("/ascend_ops/build_record.json"):
            continue
        record = json.loads(text)
        reference = f"pkg:generic/ascend-ops@{record['version']}"
        facts = {
            "opsctl:compiler": record["compiler"],
            "opsctl:npu_arch": record["npu_arch"],
            "opsctl:variants": " ".join(record["variants"]),
            "opsctl:tensorflow": record["tensorflow_version"],
            "opsctl:cxx11_abi": record["tensorflow_cxx11_abi"],
        }
        yield {
            "type": "library",
            "bom-ref": reference,
            "name": "ascend-ops",
            "version": record["version"],
            "purl": reference,
            "properties": [{"name": key, "value": str(value)} for key, value in facts.items()],
            "components": [
                {"type": "library", "bom-ref": f"{reference}#{name}", "name": name,
                 "version": record["version"]}
                for name in sorted(record["operators"])
            ],
        }  # fmt: skip
