"""opsctl.yaml becomes frozen settings of one service in one environment."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
import yaml

from opsctl import shell
from opsctl.config import settings
from opsctl.config.load import load
from opsctl.config.yaml_text import plain
from opsctl.errors import ConfigError
from tests.config.conftest import MINIMAL, Read
from tests.config.full import FULL, FULL_TEXT

TWO = """\
services:
  web: {app: {directory: a, command: [x]}}
  api: {app: {directory: b, command: [y]}}
environments:
  staging: {}
  production: {}
"""


def test_the_shortest_file_gets_all_defaults(read: Read) -> None:
    project = read(MINIMAL)
    assert project.service == settings.Service(
        app=settings.App(directory="app", command=("{python}", "main.py"))
    )
    assert (project.environment, project.service_name, project.target) == (
        "production",
        "web",
        "local",
    )


def test_a_file_that_sets_every_key_is_read_as_another_yaml_reader_reads_it(read: Read) -> None:
    data = yaml.safe_load(FULL_TEXT)
    assert data == FULL
    service = plain(read(FULL_TEXT, environment="production").service)
    given = data["services"]["web"]
    differences = {key for key in given if not _holds(service[key], given[key])}
    assert differences == set()


def _holds(read_value: object, given: object) -> bool:
    """Whether all that was given is there, defaults beside it."""
    if isinstance(given, dict) and isinstance(read_value, dict):
        return all(_holds(read_value[key], value) for key, value in given.items())
    if isinstance(given, list) and isinstance(read_value, list):
        pairs = zip(read_value, given, strict=True)
        return all(_holds(one, other) for one, other in pairs)
    return read_value == given


def test_values_have_the_declared_types_and_cannot_change(read: Read) -> None:
    service = read(FULL_TEXT, environment="production").service
    assert service.local.replica_ports == (30000, 31000)
    assert isinstance(service.app.build_timeout_s, float)
    assert service.strategy.stages[1] == settings.CanaryStage(weight=50, hold_s=4.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        service.replicas = 9  # type: ignore[misc]


def test_an_environment_lays_its_overrides_over_the_service_and_keeps_the_rest(
    read: Read,
) -> None:
    production = read(FULL_TEXT, environment="production").service
    staging = read(FULL_TEXT, environment="staging").service
    assert staging == dataclasses.replace(
        production,
        replicas=2,
        gate=dataclasses.replace(production.gate, alpha=0.1),
        app=dataclasses.replace(production.app, env={"TF_CPP_MIN_LOG_LEVEL": "2", "MODE": "slow"}),
        local=dataclasses.replace(production.local, port="auto"),
    )


def test_a_services_own_override_wins_over_the_one_for_all(read: Read) -> None:
    text = MINIMAL + (
        "environments:\n  e:\n    overrides:\n"
        "      web: {replicas: 5}\n      '*': {replicas: 2, health: {streak: 1}}\n"
    )
    service = read(text).service
    assert (service.replicas, service.health.streak) == (5, 1)


def test_overrides_replace_lists_and_secret_sources_as_a_whole(read: Read) -> None:
    text = FULL_TEXT.replace(
        "MODE: slow\n",
        "MODE: slow\n          secrets: {API_TOKEN: {file: t}}\n          command: [run]\n",
    )
    app = read(text, environment="staging").service.app
    assert app.command == ("run",)
    assert app.secrets["API_TOKEN"] == settings.SecretSource(file="t")
    assert app.secrets["DB_PASSWORD"] == settings.SecretSource(file="secrets/db")


def test_null_in_an_override_takes_an_optional_value_away(read: Read) -> None:
    text = FULL_TEXT.replace("replicas: 2\n", "replicas: 2\n        bench: null\n")
    assert read(text, environment="staging").service.bench is None


def test_anchors_aliases_and_merge_keys_are_followed(read: Read) -> None:
    service = read(
        MINIMAL + "    health: &quick {tries: 5, streak: 1}\n"
        "    smoke:\n"
        "      - &first {name: a, path: /a, timeout_s: 1}\n"
        "      - {<<: *first, name: b}\n"
        "      - {<<: [*first, {status: 204}], name: c}\n"
    ).service
    assert [(t.name, t.path, t.status) for t in service.smoke] == [
        ("a", "/a", 200),
        ("b", "/a", 200),
        ("c", "/a", 204),
    ]


@pytest.mark.parametrize(
    ("written", "value"),
    [("1e-3", 0.001), ("0.25", 0.25), (".5", 0.5), ("1", 1.0), ("5.e-1", 0.5), ("+0.1", 0.1)],
)
def test_numbers_are_read_as_people_write_them(read: Read, written: str, value: float) -> None:
    text = MINIMAL + f"    gate: {{refused_error_rate: {written}}}\n"
    assert read(text).service.gate.refused_error_rate == value


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "opsctl.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load(file, environment=None, service=None).service.app.directory == "app"


def test_the_file_is_searched_from_the_working_directory_upwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opsctl.yaml").write_text(MINIMAL)
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert load(None, environment=None, service=None).path == tmp_path / "opsctl.yaml"


def test_a_missing_file_is_told_with_the_command_that_writes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as searched:
        load(None, environment=None, service=None)
    assert searched.value.what == f"there is no opsctl.yaml in {tmp_path} or above it"
    with pytest.raises(ConfigError) as named:
        load(Path("x.yaml"), environment=None, service=None)
    assert named.value.what == f"there is no {tmp_path}/x.yaml"
    assert "opsctl init" in searched.value.next_step
    assert "opsctl init" in named.value.next_step


def test_a_folder_or_a_pipe_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, environment=None, service=None)
    assert caught.value.what == f"{tmp_path} is no file"
    with pytest.raises(ConfigError) as device:
        load(Path("/dev/null"), environment=None, service=None)
    assert device.value.what == "/dev/null is no file"


def test_a_file_that_cannot_be_read_is_told_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as too_long:
        load(tmp_path / ("x" * 300), environment=None, service=None)
    assert too_long.value.why == "File name too long"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError) as loop:
        load(tmp_path / "loop", environment=None, service=None)
    assert loop.value.what == f"there is no {tmp_path}/loop"


def test_a_working_directory_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for path in (None, Path("opsctl.yaml")):
        with pytest.raises(ConfigError) as caught:
            load(path, environment=None, service=None)
        assert caught.value.what == "the working directory is gone"


def test_the_environment_is_the_named_one_then_the_variables_then_production(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(TWO, service="web").environment == "production"
    monkeypatch.setenv("OPSCTL_ENVIRONMENT", "staging")
    assert read(TWO, service="web").environment == "staging"
    assert read(TWO, service="web", environment="production").environment == "production"


def test_the_only_environment_needs_no_choice(read: Read) -> None:
    assert read(MINIMAL + "environments: {lab: {}}\n").environment == "lab"


def test_an_unknown_environment_is_told_with_those_that_there_are(read: Read) -> None:
    with pytest.raises(ConfigError) as caught:
        read(TWO, service="web", environment="prodution")
    assert caught.value.what.startswith('there is no environment "prodution" in ')
    assert caught.value.next_step == ('Did you mean "production"? There are: staging, production')


def test_one_of_several_services_must_be_chosen(read: Read) -> None:
    assert read(TWO, service="api").service.app.directory == "b"
    with pytest.raises(ConfigError) as unchosen:
        read(TWO)
    assert unchosen.value.next_step == "Add --service with one of: web, api"
    with pytest.raises(ConfigError) as unknown:
        read(TWO, service="wb")
    assert unknown.value.next_step == 'Did you mean "web"? There are: web, api'


def test_state_of_a_service_lies_in_its_environments_folder(read: Read, tmp_path: Path) -> None:
    assert read(FULL_TEXT, environment="staging").service_dir == tmp_path / "state/staging/web"


def test_loading_imports_nothing_heavy() -> None:
    code = (
        "import sys, opsctl.config.load as l\n"
        f"l.load(l.Path({str(Path(__file__).parents[2] / 'opsctl/templates/reference.yaml')!r}),"
        " environment=None, service=None)\n"
        "print(*sys.modules)"
    )
    done = shell.run([sys.executable, "-c", code], timeout_s=30)
    assert done.ok, done.why
    heavy = {"asyncio", "difflib", "docker", "http", "jinja2", "jsonschema", "kubernetes"}
    heavy |= {"multiprocessing", "numpy", "requests", "scipy", "socket", "subprocess", "tensorflow"}
    assert heavy & set(done.stdout.split()) == set()
