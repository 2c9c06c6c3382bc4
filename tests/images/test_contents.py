"""What stands in an image, and its bill of materials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opsctl.errors import BuildFailed
from opsctl.images.contents import read_contents
from opsctl.images.sbom import canonical, make_sbom
from tests.images.layouts import MadeImage

STATUS = b"""Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""
RELEASE = b'ID=debian\nVERSION_ID="12"\n'
METADATA = b"""Metadata-Version: 2.4
Name: ml_dtypes
Version: 0.6.0
License-Expression: Apache-2.0

A long description with Name: nonsense
"""
RECORD = {
    "version": "0.1.0", "compiler": "GNU 12.2.0", "processor": "x86_64", "npu_arch": "2201",
    "variants": ["x86-64", "x86-64-v3"], "operators": ["sigmoid", "embedding_dense_grad"],
    "tensorflow_version": "2.21.0", "tensorflow_cxx11_abi": "1",
}  # fmt: skip
SITE = "opt/venv/lib/python3.11/site-packages"


def whole() -> MadeImage:
    return MadeImage(
        {"var/lib/dpkg/status": STATUS, "etc/os-release": RELEASE, "usr/bin/gcc": b"1"},
        {f"{SITE}/ml_dtypes-0.6.0.dist-info/METADATA": METADATA, "usr/bin/.wh.gcc": b""},
        {"opt/operators/ascend_ops/build_record.json": json.dumps(RECORD).encode()},
    )


def test_the_bill_names_debian_python_and_own_parts_exactly(tmp_path: Path) -> None:
    image = whole()
    bill = make_sbom("registry.example/web", image.digest, read_contents(image, tmp_path))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert [(part["purl"], part["version"]) for part in bill["components"]] == [
        ("pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12", "2.36-9+deb12u10"),
        ("pkg:generic/ascend-ops@0.1.0", "0.1.0"),
        ("pkg:pypi/ml-dtypes@0.6.0", "0.6.0"),
    ]
    assert bill["components"][2]["licenses"] == [{"expression": "Apache-2.0"}]
    own = bill["components"][1]
    assert [part["name"] for part in own["components"]] == ["embedding_dense_grad", "sigmoid"]
    assert {"name": "opsctl:compiler", "value": "GNU 12.2.0"} in own["properties"]
    assert bill["metadata"]["component"]["version"] == image.digest


def test_the_same_image_gives_the_same_bill_byte_for_byte(tmp_path: Path) -> None:
    texts = {
        canonical(make_sbom("web", whole().digest, read_contents(whole(), tmp_path / name)))
        for name in ("a", "b")
    }
    assert len(texts) == 1


def test_what_a_later_layer_removes_is_no_part_of_the_image(tmp_path: Path) -> None:
    assert read_contents(whole(), tmp_path).build_tools == []
    only_base = MadeImage({"usr/bin/gcc": b"1", "usr/local/bin/cmake": b"1", "srv/gcc": b""})
    found = read_contents(only_base, tmp_path).build_tools
    assert found == ["usr/bin/gcc", "usr/local/bin/cmake"]


def test_an_opaque_folder_hides_everything_below_it(tmp_path: Path) -> None:
    image = MadeImage({"usr/bin/gcc": b"1"}, {"usr/.wh..wh..opq": b"", "usr/bin/python3": b"1"})
    assert read_contents(image, tmp_path).programs == frozenset({"usr/bin/python3"})


def test_a_layer_that_was_read_once_is_not_read_again(tmp_path: Path) -> None:
    first = whole()
    before = read_contents(first, tmp_path)
    again = whole()
    assert read_contents(again, tmp_path) == before
    assert (first.opened, again.opened) == ([0, 1, 2], [])


def test_the_size_is_that_of_the_files(tmp_path: Path) -> None:
    image = MadeImage({"a": b"x" * 1000}, {"b": b"y" * 24})
    assert read_contents(image, tmp_path).bytes == 1024


def test_a_broken_layer_is_an_error_and_no_empty_bill(tmp_path: Path) -> None:
    image = whole()
    image._archives[1] = image._archives[1][:100]
    with pytest.raises(BuildFailed, match="can't be read") as caught:
        read_contents(image, tmp_path)
    assert caught.value.exit_code == 5
