"""What preflight finds, before anything is touched."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opsctl.checks import preflight as module
from opsctl.checks.preflight import available_memory_mb, preflight, refuse_on
from opsctl.config.settings import (
    App,
    Bench,
    Config,
    Docker,
    Gate,
    Local,
    Model,
    Project,
    Resources,
    Retention,
    SecretSource,
    Service,
    SmokeTest,
    Strategy,
    Tls,
)
from opsctl.errors import PreflightRefused, TargetUnreachable
from opsctl.model import DesiredState, Finding, Share
from opsctl.releases import LocalReleaseStore
from tests.checks.fakes import Scene, ScriptedTarget, observed, replica
from tests.ordinary import open_folder, ordinary_user

FIRST = TargetUnreachable("nothing runs yet")
SERVES = observed(replica("r1-1"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").touch()
    (tmp_path / "model.bin").write_bytes(b"x")
    (tmp_path / "body.json").write_text("{}")
    (tmp_path / "requests.jsonl").write_text("[1]\n[2]\n")
    return tmp_path


def project_in(root: Path, **changes: Any) -> Project:
    service = Service(
        app=App(directory="app", command=("{python}", "main.py")),
        model=Model(path="model.bin"),
        smoke=(SmokeTest("up", path="/", body_file="body.json"),),
        bench=Bench(path="/", requests_file="requests.jsonl"),
        retention=Retention(min_free_mb=1),
        strategy=Strategy(type="blue-green"),
    )
    service = replace(service, **changes)
    config = Config(services={"s": service})
    return Project(root / "opsctl.yaml", config, "production", "s", service, "local")


def with_app(root: Path, **changes: Any) -> Project:
    app = App(directory="app", command=("{python}", "main.py"))
    return project_in(root, app=replace(app, **changes))


def found(
    project: Project, target: ScriptedTarget | None = None, *, replicas: int = 1
) -> list[Finding]:
    state = DesiredState((Share("r2", replicas, 100),))
    target = target or ScriptedTarget([FIRST])
    return preflight(project, target, LocalReleaseStore(project.service_dir), state)


def bad(project: Project, scene: Scene = FIRST, *, replicas: int = 1) -> list[tuple[str, str, str]]:
    """Check, status and text of all findings that are not ok."""
    return [
        (finding.check, finding.status, finding.what)
        for finding in found(project, ScriptedTarget([scene]), replicas=replicas)
        if finding.status != "ok"
    ]


def test_a_sound_project_has_nothing_against_it_and_stays_untouched(root: Path) -> None:
    before = sorted(root.rglob("*"))
    checks = found(project_in(root))
    assert {finding.check for finding in checks if finding.status == "ok"} == {
        "state folder",
        "disk space",
        "application",
        "model",
        "python",
        "files",
        "strategy",
    }
    assert [finding for finding in checks if finding.status != "ok"] == []
    assert sorted(root.rglob("*")) == before
    refuse_on(checks)


def test_all_failures_stand_in_one_refusal() -> None:
    checks = [
        Finding("a", "ok", "fine"),
        Finding("b", "fail", "broken", "Repair b."),
        Finding("c", "warn", "smells", "Air it"),
        Finding("d", "fail", "gone", "Bring d"),
        Finding("e", "fail", "gone too", "Bring d"),
    ]
    with pytest.raises(PreflightRefused) as caught:
        refuse_on(checks)
    assert caught.value.exit_code == 4
    assert caught.value.what == "3 of 5 preflight checks failed"
    assert caught.value.why == "b: broken; d: gone; e: gone too"
    assert caught.value.next_step == "Repair b. Bring d"


def test_missing_sources_are_named(root: Path) -> None:
    shutil.rmtree(root / "app")
    (root / "model.bin").unlink()
    (root / "body.json").unlink()
    (root / "requests.jsonl").unlink()
    assert bad(project_in(root)) == [
        (
            "application",
            "fail",
            f"the application's folder {root}/app is missing: there is no such folder",
        ),
        ("model", "fail", f"the model {root}/model.bin is missing: no such file"),
        ("files", "fail", f"{root}/body.json (body_file of smoke test 'up') is missing"),
        ("files", "fail", f"{root}/requests.jsonl (bench.requests_file) is missing"),
    ]


def test_certificate_files_are_looked_for(root: Path) -> None:
    project = project_in(root, local=Local(tls=Tls("cert.pem", "key.pem")))
    assert bad(project) == [
        ("files", "fail", f"{root}/cert.pem (local.tls.certificate) is missing"),
        ("files", "fail", f"{root}/key.pem (local.tls.private_key) is missing"),
    ]


def test_certificate_files_are_those_of_the_target(root: Path) -> None:
    docker = Docker(tls=Tls("far.pem", "far.key"))
    project = project_in(root, local=Local(tls=Tls("cert.pem", "key.pem")), docker=docker)
    far = replace(project, target="docker")
    assert [row for row in bad(far) if row[0] == "files"] == [
        ("files", "fail", f"{root}/far.pem (docker.tls.certificate) is missing"),
        ("files", "fail", f"{root}/far.key (docker.tls.private_key) is missing"),
    ]


def test_a_line_of_the_benchmark_that_is_no_json_is_told(root: Path) -> None:
    (root / "requests.jsonl").write_text("[1]\n[2\n")
    ((check, status, what),) = bad(project_in(root))
    assert (check, status) == ("benchmark requests", "fail")
    assert what.startswith(f"line 2 of {root}/requests.jsonl is no JSON (")


def test_a_python_that_is_missing_or_does_not_run_is_told(root: Path) -> None:
    assert bad(with_app(root, python="./no-python")) == [
        ("python", "fail", "the Python ./no-python is missing")
    ]
    (root / "broken").write_text("#!/bin/sh\necho no interpreter >&2\nexit 9\n")
    (root / "broken").chmod(0o755)
    assert bad(with_app(root, python="./broken")) == [
        ("python", "fail", f"{root}/broken does not run: exit code 9: no interpreter")
    ]


def test_a_command_without_python_needs_none(root: Path) -> None:
    assert bad(with_app(root, command=("./serve",), python="./no-python")) == []


def test_secrets_without_value_fail_and_open_files_are_warned_of(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    (root / "key").write_text("value")
    (root / "key").chmod(0o644)
    sources = {"A": SecretSource(env="NOT_SET"), "B": SecretSource(file="key")}
    assert bad(with_app(root, secrets=sources)) == [
        (
            "secrets",
            "fail",
            "no value for 1 of 2 secrets: A (variable NOT_SET): not set",
        ),
        ("secrets", "warn", f"{root}/key (secret B) can be read by others"),
    ]
    (root / "key").chmod(0o600)
    assert bad(with_app(root, secrets={"B": SecretSource(file="key")})) == []


def test_too_little_disk_space_fails(root: Path) -> None:
    free_mb = shutil.disk_usage(root).free >> 20
    project = project_in(root, retention=Retention(min_free_mb=free_mb * 2))
    ((check, status, what),) = bad(project)
    assert (check, status) == ("disk space", "fail")
    assert what.endswith(f"retention.min_free_mb asks for {free_mb * 2} MB")


def test_a_state_folder_that_is_a_file_fails(root: Path) -> None:
    (root / ".opsctl").touch()
    assert bad(project_in(root)) == [("state folder", "fail", f"{root}/.opsctl is no folder")]


def test_a_state_folder_that_is_not_writable_fails() -> None:
    with open_folder() as root:
        (root / ".opsctl").mkdir(mode=0o555)
        with ordinary_user():
            findings = bad(project_in(root))
        assert ("state folder", "fail", f"{root}/.opsctl is not writable") in findings


def test_a_state_folder_on_a_file_system_without_room_for_it_fails(root: Path) -> None:
    project = project_in(root, local=Local(state_dir="/proc/opsctl"))
    assert bad(project) == [("state folder", "fail", "/proc is not writable")]


def test_the_available_memory_is_what_the_kernel_says() -> None:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    available = available_memory_mb()
    assert available is not None
    assert 0 < available < pages


def test_memory_counts_only_the_replicas_that_come_on_top(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "available_memory_mb", lambda: 1000)
    project = project_in(root, resources=Resources(memory_mb=400))
    assert bad(project, replicas=2) == []
    assert bad(project, replicas=3) == [
        ("memory", "fail", "3 more replicas may use 1200 MB, 1000 MB are available")
    ]
    assert bad(project, SERVES, replicas=3) == []


def test_without_a_limit_memory_is_guessed_by_what_runs(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "available_memory_mb", lambda: 1000)
    runs = observed(replica("r1-1", rss_bytes=600 << 20), replica("r1-2", rss_bytes=1 << 20))
    assert bad(project_in(root), runs, replicas=3) == []
    assert bad(project_in(root), runs, replicas=4) == [
        ("memory", "warn", "2 more replicas may use 1200 MB, 1000 MB are available")
    ]


def test_cpus_that_do_not_exist_fail(root: Path) -> None:
    here = sorted(os.sched_getaffinity(0))
    project = project_in(root, resources=Resources(cpus=(here[0], 4096)))
    assert bad(project) == [("cpus", "fail", f"CPUs [4096] are not to be had, only {here}")]
    assert bad(project_in(root, resources=Resources(cpus=(here[0],)))) == []


@pytest.mark.parametrize(
    ("changes", "status", "what"),
    [
        ({"bench": None}, "warn", "no benchmark is configured: speed is not judged"),
        (
            {"gate": Gate(enabled=False)},
            "warn",
            "gate.enabled is false: speed is not judged",
        ),
        ({"bench": Bench(path="/")}, "fail", "bench sends POST without a body"),
    ],
)
def test_a_gate_that_judges_nothing_is_told(
    root: Path, changes: dict[str, Any], status: str, what: str
) -> None:
    assert bad(project_in(root, **changes)) == [("gate", status, what)]


def test_a_get_benchmark_needs_no_body(root: Path) -> None:
    assert bad(project_in(root, bench=Bench(path="/", method="GET"))) == []


def test_recreate_with_one_replica_needs_leave_for_downtime(root: Path) -> None:
    recreate = project_in(root, strategy=Strategy(type="recreate"))
    assert bad(recreate) == []
    gate = (
        "gate",
        "warn",
        "recreate has no room for two: only absolute limits gate (gate.max_p99_ms)",
    )
    assert bad(recreate, SERVES) == [
        gate,
        ("strategy", "fail", "recreate stops the only replica before the new one runs"),
    ]
    allowed = project_in(root, strategy=Strategy(type="recreate", allow_downtime=True))
    assert bad(allowed, SERVES) == [
        gate,
        ("strategy", "warn", "there will be downtime; a rollback is cold"),
    ]
    two = project_in(root, replicas=2, strategy=Strategy(type="recreate"))
    assert bad(two, SERVES) == [gate]


def test_a_canary_without_stages_is_warned_of(root: Path) -> None:
    project = project_in(root, strategy=Strategy(stages=()))
    assert bad(project, SERVES) == [
        ("strategy", "warn", "canary without stages moves all traffic at once, as blue-green does")
    ]


def test_what_the_target_finds_is_among_the_findings(root: Path) -> None:
    taken = Finding("front door", "fail", "port 8501 is held by pid 412 (python)", "Stop it")
    target = ScriptedTarget([FIRST], findings=[taken])
    assert found(project_in(root), target)[-1] == taken


def test_findings_become_json(root: Path) -> None:
    data = json.loads(json.dumps([finding.to_dict() for finding in found(project_in(root))]))
    assert data[0]["check"] == "state folder"
