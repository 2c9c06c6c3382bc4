"""Request bodies: cut from a file, or given, and rendered to HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opsctl.bench.bodies import ITEMS_MAX, load_bodies, render
from opsctl.config.settings import Bench
from opsctl.errors import ConfigError
from opsctl.model import Endpoint

ENDPOINT = Endpoint("127.0.0.1", 8501)


def write(root: Path, *lines: str) -> Bench:
    (root / "requests.jsonl").write_text("\n".join(lines) + "\n")
    return Bench(path="/v1/models/m:predict", requests_file="requests.jsonl", batch_sizes=(1, 4))


def test_batches_are_cut_one_after_the_other_and_start_again_at_the_end(tmp_path: Path) -> None:
    bodies = load_bodies(write(tmp_path, "[1.5]", "", '{"x": 2}', "3"), tmp_path)
    assert bodies.sizes == (1, 4)
    assert [json.loads(body) for body in bodies.by_size[1]] == [
        {"instances": [[1.5]]},
        {"instances": [{"x": 2}]},
        {"instances": [3]},
    ]
    assert json.loads(bodies.by_size[4][1]) == {"instances": [{"x": 2}, 3, [1.5], {"x": 2}]}


def test_a_given_body_is_sent_as_it_is_with_batch_size_1() -> None:
    bodies = load_bodies(Bench(path="/", body={"a": [1, 2]}), Path())
    assert bodies.by_size == {1: (b'{"a":[1,2]}',)}


def test_only_the_first_lines_of_a_huge_file_are_used(tmp_path: Path) -> None:
    bench = write(tmp_path, *(str(number) for number in range(ITEMS_MAX + 10)), "not JSON")
    assert len(load_bodies(bench, tmp_path).by_size[1]) == 32


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"requests\.jsonl:2 is no JSON value"):
        load_bodies(write(tmp_path, "1", "{"), tmp_path)


def test_an_empty_or_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no request"):
        load_bodies(write(tmp_path, ""), tmp_path)
    with pytest.raises(ConfigError, match="cannot read bench"):
        load_bodies(Bench(path="/", requests_file="none.jsonl"), tmp_path)


def test_a_post_has_its_length_and_a_get_without_body_has_none() -> None:
    post = render(Bench(path="/x"), ENDPOINT, b"{}").decode()
    assert post.startswith("POST /x HTTP/1.1\r\nHost: 127.0.0.1:8501\r\n")
    assert "\r\nContent-Length: 2\r\n" in post and post.endswith("\r\n\r\n{}")
    get = render(Bench(path="/x", method="GET"), ENDPOINT, b"").decode()
    assert get.startswith("GET /x HTTP/1.1\r\n") and "Content-Length" not in get
