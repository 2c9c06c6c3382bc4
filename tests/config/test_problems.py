"""What is wrong in an opsctl.yaml is told with line, full key path, and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsctl.config.load import load
from opsctl.config.problems import ConfigFileError
from tests.config.conftest import MINIMAL, Told
from tests.config.full import FULL_TEXT

AFTER = MINIMAL.count("\n") + 1
"""The line of what a test writes below the shortest file."""


@pytest.mark.parametrize(
    ("line", "key", "what"),
    [
        ("replcas: 2", "replcas", 'unknown key (did you mean "replicas"?)'),
        ("port: 80", "port", 'unknown key here (did you mean "local.port"?)'),
        ("replicas: 2.5", "replicas", "found 2.5 (a number); allowed: a whole number from 1 to 64"),
        ("replicas: 65", "replicas", "found 65 (a number); allowed: a whole number from 1 to 64"),
        (
            "replicas: true",
            "replicas",
            "found true (a boolean); allowed: a whole number from 1 to 64",
        ),
        ('replicas: "2"', "replicas", 'found "2" (text); allowed: a whole number from 1 to 64'),
        ("replicas:", "replicas", "found nothing (null); allowed: a whole number from 1 to 64"),
        (
            "replicas: {a: 1}",
            "replicas",
            "found a map; allowed: a whole number from 1 to 64 (is the indentation right?)",
        ),
        ("gate: []", "gate", "found a list; allowed: a map"),
        (
            "gate: {alpha: .nan}",
            "gate.alpha",
            ".nan is no finite number; allowed: a number from 1e-06 to 0.5",
        ),
        (
            "gate: {alpha: 1e999}",
            "gate.alpha",
            "1e999 is no finite number; allowed: a number from 1e-06 to 0.5",
        ),
        (
            "gate: {enabled: yes}",
            "gate.enabled",
            (
                'yes is a boolean in YAML 1.1 and text in YAML 1.2: write true, or "yes" in quotes'
                " for text; allowed: true or false"
            ),
        ),
        (
            "replicas: 0x2",
            "replicas",
            (
                "0x2 is a different number to different YAML readers: write it in plain decimal"
                " digits, or in quotes for text; allowed: a whole number from 1 to 64"
            ),
        ),
        (
            "model: {path: 3}",
            "model.path",
            'found 3 (a number); allowed: text (write "3" in quotes)',
        ),
        (
            "strategy: {type: Canary}",
            "strategy.type",
            (
                'found "Canary" (text); allowed: one of canary, blue-green, rolling, recreate'
                ' (did you mean "canary"?)'
            ),
        ),
        (
            "local: {port: aut}",
            "local.port",
            (
                'found "aut" (text); allowed: a whole number from 1 to 65535, or auto'
                ' (did you mean "auto"?)'
            ),
        ),
        (
            "local: {replica_ports: [2000]}",
            "local.replica_ports",
            "found 1 items; allowed: 2 items",
        ),
        (
            "model: {}",
            "model.path",
            "the required key is missing; allowed: text",
        ),
        (
            "on: 1",
            "on",
            (
                'key "on" is a boolean in YAML 1.1 and text in YAML 1.2: write true, or "on" in'
                " quotes for text"
            ),
        ),
        ("80: 1", "80", "key 80 is a number; allowed: text (put it in quotes)"),
        (
            "replicas: !!int 3",
            "replicas",
            "tag !!int is not allowed; write a plain value",
        ),
        ("app: {}", "app", "the key stands twice, first in line 3"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_allowed(
    told: Told, line: str, key: str, what: str
) -> None:
    assert told(f"{MINIMAL}    {line}\n") == [(AFTER, f"services.web.{key}", what)]


@pytest.mark.parametrize(
    ("line", "key", "what"),
    [
        (
            "strategy: {stages: [{weight: 50}, {weight: 5}]}",
            "strategy.stages",
            "weights [50, 5] must rise from stage to stage",
        ),
        (
            "strategy: {stages: []}",
            "strategy.stages",
            "a canary needs a stage (without one: type: blue-green)",
        ),
        (
            "gate: {tolerated_p99_percent: 8}",
            "gate.refused_p99_percent",
            "8 must be more than tolerated_p99_percent (8)",
        ),
        (
            (
                "gate: {prometheus: {url: ftp://x, queries: [{name: a, query: b, most: 1,"
                " refused_percent: null}]}}"
            ),
            "gate.prometheus.url",
            'found "ftp://x"; allowed: http://… or https://…',
        ),
        (
            (
                "gate: {prometheus: {url: 'http://me:pw@x', queries: [{name: a, query: b, most: 1,"
                " refused_percent: null}]}}"
            ),
            "gate.prometheus.url",
            ('found "http://me:pw@x"; allowed: no name and password in it; they belong in `token`'),
        ),
        (
            (
                "gate: {prometheus: {url: http://x, token: {env: T}, queries: [{name: a, query: b,"
                " most: 1, refused_percent: null}]}}"
            ),
            "gate.prometheus.token",
            "would travel in the clear over http://; allowed: a url with https://",
        ),
        (
            "gate: {prometheus: {url: http://x, queries: [{name: a, query: 'b{c=\"{relase}\"}'}]}}",
            "gate.prometheus.queries[0].query",
            (
                "placeholder {relase} is not known; allowed: {release}, {replica}, {host}, {port},"
                " {health_port} (did you mean {release}?)"
            ),
        ),
        (
            "gate: {prometheus: {url: http://x, queries: [{name: a, query: b}]}}",
            "gate.prometheus.queries[0].query",
            "gives old and new the same value; use {replica}, {host} or {release}",
        ),
        (
            (
                "gate: {prometheus: {url: http://x, queries: [{name: a, query: b,"
                " refused_percent: null}]}}"
            ),
            "gate.prometheus.queries[0].refused_percent",
            "without it `least` or `most` is needed, or nothing judges",
        ),
        (
            (
                "gate: {prometheus: {url: http://x, queries: [{name: a, query: 'rate(b[1m])',"
                " most: 1, refused_percent: null}]}}"
            ),
            "gate.prometheus.queries[0].query",
            "its range of 60 s is longer than interval_s (15): values would overlap",
        ),
        (
            (
                "gate: {budget_s: 100, prometheus: {url: http://x, queries: [{name: a, query: b,"
                " most: 1, refused_percent: null}]}}"
            ),
            "gate.budget_s",
            "100 s are too short for 12 values of prometheus, one each 15 s",
        ),
        (
            "gate: {metrics: [p50, p50]}",
            "gate.metrics",
            "a metric stands twice",
        ),
        (
            "local: {replica_ports: [3000, 2000]}",
            "local.replica_ports",
            "the range ends (2000) before it begins (3000)",
        ),
        (
            "local: {replica_ports: [2000, 2004]}",
            "local.replica_ports",
            "5 ports are too few: `replicas: 1` needs 6 (3 releases at once, 2 ports a replica)",
        ),
        (
            "local: {port: 20010}",
            "local.replica_ports",
            "the front door's port 20010 lies in it",
        ),
        ("health: {streak: 31}", "health.streak", "31 successes can't come in 30 tries"),
        (
            "health: {path: ready}",
            "health.path",
            (
                'found "ready"; allowed: a path that begins with / and has no spaces (other'
                " characters as %XX)"
            ),
        ),
        (
            "smoke: [{name: a}]",
            "smoke[0].path",
            "exactly one of path, run is needed; found none",
        ),
        (
            "smoke: [{name: a, path: /, run: [x]}]",
            "smoke[0].run",
            "exactly one of path, run is needed; found path and run",
        ),
        (
            "smoke: [{name: a, path: /}, {name: a, path: /b}]",
            "smoke",
            'the name "a" stands twice',
        ),
        (
            'smoke: [{name: a, path: /, headers: {"a b": c}}]',
            "smoke[0].headers.a b",
            "is no name of an HTTP header",
        ),
        (
            "bench: {path: /x}",
            "bench.requests_file",
            "a POST needs requests_file or body (or a path with :predict)",
        ),
        (
            "bench: {path: /x, body: {}, batch_sizes: [1, 4]}",
            "bench.batch_sizes",
            "without requests_file no batches can be made; allowed: [1]",
        ),
        (
            "bench: {path: /x, requests_file: r, batch_sizes: [4, 1]}",
            "bench.batch_sizes",
            "allowed: each size once, the smallest first",
        ),
        (
            "hooks: [{when: before, run: []}]",
            "hooks[0].run",
            "the command is empty; allowed: a list, the program first",
        ),
        (
            "notifications: [{url: 'ftp://x'}]",
            "notifications[0].url",
            'found "ftp://x"; allowed: http://… or https://…',
        ),
        (
            "notifications: [{url: 'http://[::1'}]",
            "notifications[0].url",
            'found "http://[::1"; allowed: http://HOST or http://HOST:PORT, and a path',
        ),
        (
            "notifications: [{url: 'http://127.0.0.1:99999/'}]",
            "notifications[0].url",
            'found "http://127.0.0.1:99999/"; port 99999 is none: 1 to 65535',
        ),
        (
            "build: {image: a, base: 'b@sha256:0', requirements: r, sources: {proxy: 'me:3128'}}",
            "build.sources.proxy",
            'found "me:3128"; allowed: http://… or https://…',
        ),
        ("resources: {cpus: [1, 1]}", "resources.cpus", "a CPU stands twice"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(
    told: Told, line: str, key: str, what: str
) -> None:
    assert told(f"{MINIMAL}    {line}\n") == [(AFTER, f"services.web.{key}", what)]


def test_a_gate_without_time_for_its_pairs_is_refused(told: Told) -> None:
    text = "    bench: {path: /x, requests_file: r, rate_per_s: 10}\n    gate: {budget_s: 79}\n"
    assert told(MINIMAL + text) == [
        (
            AFTER + 1,
            "services.web.gate.budget_s",
            (
                "79 s are too short: 200 pairs for each of 4 batch sizes take 80 s at 10 pairs a"
                " second"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("argument", "what"),
    [
        ("{prt}", ("placeholder {prt} is not known; allowed: {python}, {host}, {port},"
         " {health_port}, {model}, {release}, {replica}, {{ and }} (did you mean {port}?)")),
        ("a{", ("a single { stands in it; write {{ for a brace; allowed: {python}, {host},"
         " {port}, {health_port}, {model}, {release}, {replica}, {{ and }}")),
        ("a}", ("a single } stands in it; write }} for a brace; allowed: {python}, {host},"
         " {port}, {health_port}, {model}, {release}, {replica}, {{ and }}")),
    ],
)  # fmt: skip
def test_unknown_placeholders_and_lone_braces_are_refused(
    told: Told, argument: str, what: str
) -> None:
    text = MINIMAL.replace("main.py", f'"{argument}"')
    assert told(text) == [(5, "services.web.app.command[1]", what)]


def test_the_models_placeholder_needs_a_model(told: Told) -> None:
    assert told(MINIMAL.replace("main.py", '"{model}"')) == [
        (3, "services.web.app.command", "{model} is used, but the service has no `model` section")
    ]


def test_environment_variables_are_checked(told: Told) -> None:
    text = MINIMAL + (
        "      env: {A: b, a-b: c, OPSCTL_PORT: '1'}\n      secrets: {A: {env: X}, B: {}}\n"
    )
    assert told(text.replace(", B: {}", "")) == [
        (6, "services.web.app.env.a-b", "is no name of an environment variable"),
        (6, "services.web.app.env.OPSCTL_PORT", "names with OPSCTL_ are opsctl's own"),
        (7, "services.web.app.secrets.A", "stands in env too; allowed: one of both"),
    ]
    assert told(text) == [
        (
            7,
            "services.web.app.secrets.B.env",
            "exactly one of env, file, command is needed; found none",
        )
    ]


def test_an_override_is_held_to_the_rules_of_the_service_and_told_at_its_own_line(
    told: Told,
) -> None:
    text = MINIMAL + "environments:\n  lab:\n    overrides:\n      '*':\n        replicas: 0\n"
    assert told(text + "        helth: {}\n        gate: {refused_p50_percent: 1}\n") == [
        (
            10,
            "environments.lab.overrides.*.replicas",
            "found 0 (a number); allowed: a whole number from 1 to 64",
        ),
        (11, "environments.lab.overrides.*.helth", 'unknown key (did you mean "health"?)'),
        (
            12,
            "environments.lab.overrides.*.gate.refused_p50_percent",
            "1 must be more than tolerated_p50_percent (1.5)",
        ),
    ]


def test_all_problems_are_listed_the_first_one_first(tmp_path: Path) -> None:
    file = tmp_path / "opsctl.yaml"
    file.write_text(MINIMAL + "    replicas: 0\n    gat: {}\n    retention: {releases: -1}\n")
    with pytest.raises(ConfigFileError) as caught:
        load(file, environment=None, service=None)
    error = caught.value
    assert error.what == (
        f"{file}:6: services.web.replicas: found 0 (a number); allowed: a whole number from 1 to 64"
    )
    assert error.why.splitlines() == [
        "and 2 more problems",
        f'  {file}:7: services.web.gat: unknown key (did you mean "gate"?)',
        (
            f"  {file}:8: services.web.retention.releases: found -1 (a number);"
            " allowed: a whole number of at least 0"
        ),
    ]
    assert error.next_step == (
        "Correct the file, then run: opsctl config validate (all keys: opsctl config docs replicas)"
    )


def test_twenty_problems_are_listed_and_the_rest_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "opsctl.yaml"
    file.write_text(MINIMAL + "".join(f"    wrong{n}: 1\n" for n in range(33)))
    with pytest.raises(ConfigFileError) as caught:
        load(file, environment=None, service=None)
    assert [problem.line for problem in caught.value.problems] == list(range(6, 26))
    assert caught.value.why.splitlines()[0] == "and 32 more problems"
    assert caught.value.why.splitlines()[-1] == "  (and 13 more)"


def test_nothing_foreign_is_shown_raw(told: Told) -> None:
    ((_, key, what),) = told(f'{MINIMAL}    "\\e[2J{"k" * 500}": 1\n')
    assert key.startswith("services.web.\\x1b[2Jkkk")
    assert key.isprintable()
    assert what.isprintable()
    assert len(key) < 100


def test_the_full_file_has_no_problem(tmp_path: Path) -> None:
    file = tmp_path / "opsctl.yaml"
    file.write_text(FULL_TEXT)
    assert load(file, environment="staging", service=None).service.replicas == 2
