"""Hooks: real commands, told where they stand, and heard when they fail."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from opsctl.config.settings import Hook
from opsctl.errors import HookFailed
from opsctl.hooks import HookContext, HookSettings, run_hooks

CONTEXT = HookContext(
    service="light",
    environment="production",
    rollout=7,
    step="promote",
    release="r13",
    base="r12",
    outcome="",
    actor="ada@host",
)
DUMP = (
    "import json, os; open('seen.json', 'w').write("
    "json.dumps({k: v for k, v in os.environ.items() if k.startswith('OPSCTL_')}))"
)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def settings_in(root: Path) -> HookSettings:
    return HookSettings(root, lambda: None, lambda line: None)


def test_a_hook_gets_the_context_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPSCTL_TEST_SEED", "OPSCTL_STEP"):
        monkeypatch.delenv(name, raising=False)
    hook = Hook("after", step="promote", run=python(DUMP))
    (result,) = run_hooks([hook], "after", CONTEXT, settings_in(tmp_path))
    assert (result.ok, result.exit_code, result.warning) == (True, 0, "")
    assert json.loads((tmp_path / "seen.json").read_text()) == {
        "OPSCTL_SERVICE": "light",
        "OPSCTL_ENVIRONMENT": "production",
        "OPSCTL_ROLLOUT": "7",
        "OPSCTL_STEP": "promote",
        "OPSCTL_RELEASE": "r13",
        "OPSCTL_BASE": "r12",
        "OPSCTL_OUTCOME": "",
        "OPSCTL_ACTOR": "ada@host",
    }


def test_only_the_hooks_of_this_moment_run_and_in_order(tmp_path: Path) -> None:
    def note(text: str) -> tuple[str, ...]:
        return python(f"open('log', 'a').write('{text} ')")

    hooks = [
        Hook("before", step="promote", run=note("first")),
        Hook("after", step="promote", run=note("later")),
        Hook("before", step="deploy", run=note("other")),
        Hook("before", step="promote", run=note("second")),
    ]
    results = run_hooks(hooks, "before", CONTEXT, settings_in(tmp_path))
    assert (tmp_path / "log").read_text() == "first second "
    assert [result.to_dict()["ok"] for result in results] == [True, True]


def test_a_failing_hook_before_a_step_stops_the_rollout_and_the_later_hooks(
    tmp_path: Path,
) -> None:
    refuses = python("print('checking'); raise SystemExit('not on Fridays')")
    hooks = [
        Hook("before", step="promote", run=refuses),
        Hook("before", step="promote", run=python("open('late', 'w')")),
    ]
    with pytest.raises(HookFailed) as caught:
        run_hooks(hooks, "before", CONTEXT, settings_in(tmp_path))
    assert caught.value.exit_code == 10
    assert caught.value.what.startswith(f"the hook before promote failed ({sys.executable} -c ")
    assert caught.value.why == "exit code 1\n  checking\n  not on Fridays"
    assert not (tmp_path / "late").exists()


def test_a_failing_hook_after_a_step_is_a_warning_and_the_others_still_run(tmp_path: Path) -> None:
    hooks = [
        Hook("after", step="promote", run=python("raise SystemExit('chat is down')")),
        Hook("after", step="promote", run=python("print('fine')")),
    ]
    bad, good = run_hooks(hooks, "after", CONTEXT, settings_in(tmp_path))
    assert (bad.ok, bad.warning, bad.output) == (False, "exit code 1", "chat is down")
    assert (good.ok, good.output) == (True, "fine")


def test_a_hook_over_its_time_limit_is_stopped(tmp_path: Path) -> None:
    hook = Hook("after", step="promote", run=("sleep", "30"), timeout_s=0.2)
    began = time.monotonic()
    (result,) = run_hooks([hook], "after", CONTEXT, settings_in(tmp_path))
    assert time.monotonic() - began < 28
    assert result.warning == "it ran longer than 0.2 s and was stopped"


def test_a_hook_that_is_missing_fails(tmp_path: Path) -> None:
    hook = Hook("before", step="promote", run=("./no-such-hook",))
    with pytest.raises(HookFailed, match=r"cannot start ./no-such-hook: No such file"):
        run_hooks([hook], "before", CONTEXT, settings_in(tmp_path))


def test_what_a_hook_prints_is_hidden_where_it_is_secret(tmp_path: Path) -> None:
    told: list[str] = []
    settings = HookSettings(
        tmp_path, lambda: None, told.append, lambda text: text.replace("swordfish", "***")
    )
    hook = Hook("after", step="promote", run=("echo", "swordfish"))
    (result,) = run_hooks([hook], "after", CONTEXT, settings)
    assert (result.command, result.output) == ("echo ***", "***")
    assert told == ["hook after promote: echo ***"]
