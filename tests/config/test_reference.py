"""Documentation, schema, reference file and code agree on every key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

import opsctl
from opsctl.config.docs import document, reference_yaml
from opsctl.config.keys import Key, find, walk
from opsctl.config.load import load
from opsctl.config.schema import DIALECT, schema
from opsctl.config.yaml_text import plain
from opsctl.errors import ConfigError
from tests.config.conftest import MINIMAL
from tests.config.full import FULL, FULL_TEXT
from tests.config.places import PLACES

PACKAGE = Path(opsctl.__file__).parent
REFERENCE = PACKAGE / "templates" / "reference.yaml"
KEYS = list(walk())


def test_the_committed_reference_file_is_the_generated_one() -> None:
    # After a change of the settings: python -m opsctl.config.docs > opsctl/templates/reference.yaml
    assert REFERENCE.read_text() == reference_yaml()


def test_the_reference_file_is_valid_and_sets_defaults_only() -> None:
    project = load(REFERENCE, environment=None, service=None)
    app = project.service.app
    assert plain(project.service) == {
        **plain(project.service),
        **{key.name: plain(key.default) for key in KEYS if _is_of_service(key)},
    }
    assert (app.directory, app.command) == ("app", ("{python}", "main.py", "--port", "{port}"))


def _is_of_service(key: Key) -> bool:
    return key.path.count(".") == 1 and key.path.startswith("services.") and not key.required


def test_the_reference_file_shows_every_key_with_its_meaning() -> None:
    text = REFERENCE.read_text()
    # An explanation is wrapped, and stands as deep as its section: joined again before the search.
    joined = re.sub(r"\s+", " ", re.sub(r"\n[ #]*# ", " ", text))
    missing = [
        key.path
        for key in KEYS
        if not re.search(rf"^[ #]*(- )?{key.name}:", text, re.MULTILINE)
        or key.info.doc not in joined
    ]
    assert missing == []


def test_every_key_uncommented_alone_is_valid() -> None:
    """Each key of a section that is not commented out, with the default that is shown."""
    lines = reference_yaml().splitlines()
    tried = 0
    for number, line in enumerate(lines):
        match = re.fullmatch(r"( *)#(\w+: \S.*)", line)
        if match:
            tried += 1
            changed = [*lines[:number], match[1] + match[2], *lines[number + 1 :]]
            data = yaml.safe_load("\n".join(changed))
            assert list(Draft202012Validator(schema()).iter_errors(data)) == [], line
    assert tried > 5


def test_every_key_is_read_somewhere_in_the_code() -> None:
    code = "\n".join(
        path.read_text()
        for path in PACKAGE.rglob("*.py")
        if "config" not in path.parts and "templates" not in path.parts
    )
    unread = [
        key.path for key in KEYS if not re.search(rf"\.{key.name}\b|\[\"{key.name}\"\]", code)
    ]
    # Overrides are laid over the services by opsctl.config itself.
    assert unread == ["environments.overrides"]
    assert '"overrides"' in (PACKAGE / "config" / "overrides.py").read_text()


def test_the_full_example_of_the_tests_sets_every_key() -> None:
    shown = {re.sub(r"\[\d+\]|\.(web|production|staging)\b", "", place.path) for place in PLACES}
    named = {re.sub(r"\.(API_TOKEN|DB_PASSWORD|SIGNING_KEY)\b", "", path) for path in shown}
    # Exactly one of a secret's keys may be set; `body` excludes `requests_file`, and a static
    # virtual NPU excludes Volcano.
    assert {key.path for key in KEYS} - named == {
        "services.bench.body",
        "services.build.signing.password.file",
        "services.build.signing.password.command",
        "services.gate.prometheus.token.file",
        "services.gate.prometheus.token.command",
        "services.kubernetes.npu.volcano_queue",
        "services.notifications.secret.file",
        "services.notifications.secret.command",
    }


def test_chosen_values_are_set_and_all_other_keys_stand_beside_them_as_comments(
    tmp_path: Path,
) -> None:
    values = {
        "services": {
            "anomaly": {
                "app": {"directory": "a", "command": ["{python}", "serve.py"], "env": {"A": "1"}},
                "replicas": 2,
                "smoke": [
                    {"name": "one", "path": "/1", "body": {"instances": [[1.5, "x: y"]]}},
                    {"name": "two", "run": ["check"]},
                ],
                "local": {"tls": {"certificate": "c", "private_key": "k"}},
            }
        },
        "environments": {"lab": {"overrides": {"*": {"replicas": 1}}}},
    }
    text = reference_yaml(values)
    assert yaml.safe_load(text) == values
    file = tmp_path / "opsctl.yaml"
    file.write_text(text)
    assert load(file, environment="lab", service=None).service.replicas == 1
    assert [
        key.path for key in KEYS if not re.search(rf"^[ #]*(- )?{key.name}:", text, re.MULTILINE)
    ] == []


def test_the_reference_of_a_full_configuration_reads_back_the_same() -> None:
    assert yaml.safe_load(reference_yaml(FULL)) == FULL


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("gate", "services.gate"),
        ("gate.alpha", "services.gate.alpha"),
        ("services.web.gate.alpha", "services.gate.alpha"),
        ("services.*.gate", "services.gate"),
        ("services.web.smoke[1].json[0].path", "services.smoke.json.path"),
        ("app.secrets.TOKEN.env", "services.app.secrets.env"),
        ("environments.lab.overrides.web.replicas", "services.replicas"),
        ("environments.lab.target", "environments.target"),
        ("environments", "environments"),
        ("version", "version"),
        ("services", "services"),
    ],
)
def test_a_key_is_found_however_its_path_is_written(asked: str, found: str) -> None:
    assert find(asked).path == found


def test_docs_explain_one_key() -> None:
    assert document("services.web.health.streak") == (
        "# services.health.streak\n"
        "# Successes in a row that count as healthy. (a whole number of at least 1; default 3)\n"
        "streak: 3\n"
    )
    assert document("retention", markdown=True).splitlines()[6] == (
        "| `releases` | a whole number of at least 0 | `5` |"
        " Releases kept besides those that serve or can be gone back to. |"
    )
    assert document(None) == REFERENCE.read_text()


def test_markdown_has_a_row_for_every_key() -> None:
    rows = [line for line in document(None, markdown=True).splitlines() if line.startswith("| `")]
    assert len(rows) == len(KEYS)


def test_an_unknown_key_is_told_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as caught:
        document("gate.alpa")
    assert caught.value.why == 'the nearest one is "gate.alpha"'
    assert caught.value.next_step == "Run: opsctl config docs gate.alpha"


def test_the_schema_is_valid_and_takes_what_load_takes() -> None:
    made = schema()
    Draft202012Validator.check_schema(made)
    assert made["$schema"] == DIALECT
    for text in (MINIMAL, FULL_TEXT, REFERENCE.read_text()):
        errors = Draft202012Validator(made).iter_errors(yaml.safe_load(text))
        assert [error.message for error in errors] == []


@pytest.mark.parametrize(
    "line",
    [
        "replcas: 2",
        "replicas: 65",
        'replicas: "2"',
        "replicas: true",
        "gate: []",
        "model: {}",
        "strategy: {type: Canary}",
        "local: {port: aut}",
        "local: {replica_ports: [2000]}",
        "smoke: [{name: a}]",
        "smoke: [{name: a, path: /, run: [x]}]",
        "hooks: [{when: before}]",
    ],
)
def test_the_schema_refuses_what_load_refuses(line: str, tmp_path: Path) -> None:
    text = f"{MINIMAL}    {line}\n"
    file = tmp_path / "opsctl.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        load(file, environment=None, service=None)
    assert list(Draft202012Validator(schema()).iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize("overrides", ["{'*': {replcas: 1}}", "{web: {gate: {alpha: 2}}}"])
def test_the_schema_checks_overrides_without_asking_for_required_keys(overrides: str) -> None:
    validator = Draft202012Validator(schema())
    head = f"{MINIMAL}environments: {{lab: {{overrides: "
    good = yaml.safe_load(f"{head}{{web: {{app: {{build: [make]}}}}}}}}}}")
    assert list(validator.iter_errors(good)) == []
    assert list(validator.iter_errors(yaml.safe_load(f"{head}{overrides}}}}}")))
