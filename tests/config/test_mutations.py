"""Broken opsctl.yaml files: each is refused with its place and the nearest right word."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsctl.config.load import load
from opsctl.config.problems import ConfigFileError
from tests.config.mutations import MUTATIONS, mutate

RUNS = 630
"""30 of each kind."""


def test_every_mutated_file_is_refused_with_line_key_and_nearest_key(
    tmp_path: Path, seed: int
) -> None:
    file = tmp_path / "opsctl.yaml"
    failures = []
    kinds = set()
    for index in range(RUNS):
        mutant = mutate(seed, index)
        kinds.add(mutant.kind)
        file.write_bytes(mutant.data)
        try:
            load(file, environment="production", service=None)
        except ConfigFileError as error:
            failures += [(index, mutant.kind, text) for text in mutant.complaints(error)]
            if str(error).split(":")[0] != str(file):
                failures.append((index, mutant.kind, f"the file is not named: {error}"))
        else:
            failures.append((index, mutant.kind, "was taken"))
    assert failures == []
    assert len(kinds) >= len(MUTATIONS)


def test_no_mutation_ran_code_or_wrote_a_file(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tags = sorted(MUTATIONS).index("_tag")
    for round_ in range(20):
        mutant = mutate(seed, round_ * len(MUTATIONS) + tags)
        assert b"!" in mutant.data
        Path("opsctl.yaml").write_bytes(mutant.data)
        with pytest.raises(ConfigFileError):
            load(None, environment=None, service=None)
    assert [path.name for path in tmp_path.iterdir()] == ["opsctl.yaml"]
