"""What `verify` says of an image that can't be run here, and of its parts."""

from __future__ import annotations

from pathlib import Path

from opsctl.images.engine import own_platform
from opsctl.images.verify import verify_image
from tests.images.layouts import MadeImage

LABELS = {
    "opsctl.content": "c", "opsctl.flavour": "cpu", "opsctl.python": "3.11",
    "opsctl.tensorflow": "2.21.0", "opsctl.operators": "yes",
    "org.opencontainers.image.base.digest": "sha256:0",
}  # fmt: skip


def checks_of(folder: Path, image: MadeImage) -> dict[str, tuple[bool, str]]:
    image.config["architecture"] = "arm64" if own_platform() == "linux/amd64" else "amd64"
    found = verify_image(image, "registry.example/web", {}, folder)
    return {check.name: (check.ok, check.detail) for check in found}


def test_an_image_for_another_processor_is_judged_by_its_files_and_not_run(tmp_path: Path) -> None:
    image = MadeImage(
        {"usr/bin/python3": b""}, User="10001:10001", Labels=LABELS, Env=["PATH=/bin"]
    )
    checks = checks_of(tmp_path, image)
    other = "linux/arm64" if own_platform() == "linux/amd64" else "linux/amd64"
    assert checks.pop("platform") == (False, f"{other}; this machine is {own_platform()}")
    assert checks == {
        "user without rights": (True, "10001:10001"),
        "labels": (True, "content c"),
        "search paths": (True, "whole"),
        "no build tool": (True, "none"),
        "no secret in any layer": (True, "none of 0 known, and no private key"),
    }


def test_each_kind_of_root_is_refused(tmp_path: Path) -> None:
    for user in ("", "0", "0:0", "root", "root:10001"):
        checks = checks_of(tmp_path, MadeImage(User=user))
        assert checks["user without rights"][0] is False, user


def test_labels_that_are_missing_are_named(tmp_path: Path) -> None:
    image = MadeImage(Labels={**LABELS, "opsctl.python": ""})
    assert checks_of(tmp_path, image)["labels"] == (False, "missing: opsctl.python")


def test_a_search_path_with_an_empty_entry_is_named(tmp_path: Path) -> None:
    for value in ("/a:", ":/a", "/a::/b", ""):
        checks = checks_of(tmp_path, MadeImage(Env=["PATH=/bin", f"LD_LIBRARY_PATH={value}"]))
        assert checks["search paths"] == (False, "empty entry in LD_LIBRARY_PATH")
