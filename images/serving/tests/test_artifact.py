"""Which model a path names, and its hash."""

from __future__ import annotations

import hashlib
import os

import pytest
from ascend_serving.artifact import find_artifact, hash_artifact
from ascend_serving.errors import ModelMissing


def make_saved_model(folder):
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph")
    return folder


def test_the_largest_version_is_served(tmp_path):
    for version in ("1", "9", "10", "tmp-11", "0"):
        make_saved_model(tmp_path / version)
    found = find_artifact(tmp_path)
    assert (found.version, found.path) == (10, tmp_path / "10")


def test_a_version_folder_without_a_model_is_passed_over(tmp_path):
    make_saved_model(tmp_path / "3")
    (tmp_path / "4").mkdir()
    assert find_artifact(tmp_path).version == 3


def test_a_bare_saved_model_is_version_1_unless_its_folder_is_a_number(tmp_path):
    assert find_artifact(make_saved_model(tmp_path / "model")).version == 1
    assert find_artifact(make_saved_model(tmp_path / "17")).version == 17


def test_a_compiled_model_is_found_too(tmp_path):
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "net.om").write_bytes(b"om")
    found = find_artifact(tmp_path)
    assert (found.version, found.path) == (2, tmp_path / "2" / "net.om")
    assert find_artifact(tmp_path / "2" / "net.om").version == 1


def test_a_link_that_leads_nowhere_or_in_circles_is_missing(tmp_path):
    (tmp_path / "gone").symlink_to(tmp_path / "none")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("gone", "circle"):
        with pytest.raises(ModelMissing):
            find_artifact(tmp_path / name)


def test_the_hash_covers_names_sizes_and_bytes_and_nothing_else(tmp_path):
    folder = make_saved_model(tmp_path / "a")
    (folder / "variables").mkdir()
    (folder / "variables" / "v").write_bytes(b"12")
    expected = hashlib.sha256(b"saved_model.pb\x005\x00graph" + b"variables/v\x002\x0012")
    assert hash_artifact(folder) == f"sha256:{expected.hexdigest()}"
    os.utime(folder / "saved_model.pb", (0, 0))
    (folder / "saved_model.pb").chmod(0o600)
    assert hash_artifact(folder) == f"sha256:{expected.hexdigest()}"
    (folder / "variables" / "v").rename(folder / "variables" / "w")
    assert hash_artifact(folder) != f"sha256:{expected.hexdigest()}"


def test_one_file_is_hashed_by_its_name_and_content(tmp_path):
    (tmp_path / "net.om").write_bytes(b"om")
    expected = hashlib.sha256(b"net.om\x002\x00om").hexdigest()
    assert hash_artifact(tmp_path / "net.om") == f"sha256:{expected}"
