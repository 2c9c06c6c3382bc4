"""Hooks: the user's commands before and after steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opsctl.config.settings import Hook
from opsctl.errors import HookFailed
from opsctl.model import Json
from opsctl.shell import Completed, run

When = Literal["before", "after"]

OUTPUT_LINES = 10
"""Last lines of a failed hook's output that its error or warning shows."""


@dataclass(frozen=True)
class HookContext:
    """What a hook gets to know: each field is a variable, `OPSCTL_` and its name in capitals."""

    service: str
    environment: str
    rollout: int
    step: str
    release: str
    base: str | None = None
    outcome: str = ""
    actor: str = ""

    def variables(self) -> dict[str, str]:
        """The environment variables; what is not known is empty."""
        return {
            f"OPSCTL_{name.upper()}": "" if value is None else str(value)
            for name, value in self.__dict__.items()
        }


@dataclass(frozen=True)
class HookSettings:
    """How hooks run: in which folder, who can stop them, who hears of them, what to hide."""

    cwd: Path
    interrupt: Callable[[], None]
    tell: Callable[[str], None]
    hide: Callable[[str], str] = str


@dataclass(frozen=True)
class HookResult:
    """One hook that ran; `warning` is empty when it succeeded."""

    when: str
    step: str
    command: str
    exit_code: int
    output: str
    warning: str = ""

    @property
    def ok(self) -> bool:
        return not self.warning

    def to_dict(self) -> Json:
        return {**self.__dict__, "ok": self.ok}


def run_hooks(
    hooks: Iterable[Hook], when: When, context: HookContext, settings: HookSettings
) -> tuple[HookResult, ...]:
    """Run the hooks of this moment of `context.step`, in the order of opsctl.yaml.

    A failing hook before a step raises `HookFailed`, and the later ones don't run. One after a
    step is past stopping anything: its result carries a warning, and the others still run.
    """
    results = []
    for hook in hooks:
        if hook.when == when and hook.step == context.step:
            result = _run(hook, context, settings)
            if not result.ok and when == "before":
                raise HookFailed(
                    f"the hook before {context.step} failed ({result.command})",
                    why=_with_output(result),
                    next_step="Repair the hook (hooks in opsctl.yaml), then deploy again",
                )
            results.append(result)
    return tuple(results)


def _run(hook: Hook, context: HookContext, settings: HookSettings) -> HookResult:
    command = settings.hide(" ".join(hook.run))
    settings.tell(f"hook {hook.when} {hook.step}: {command}")
    done = run(
        hook.run,
        timeout_s=hook.timeout_s,
        cwd=settings.cwd,
        env=_environment(context.variables()),
        interrupt=settings.interrupt,
    )
    lines = f"{done.stdout}{done.stderr}".strip().splitlines()[-OUTPUT_LINES:]
    return HookResult(
        when=hook.when,
        step=hook.step,
        command=command,
        exit_code=done.exit_code,
        output=settings.hide("\n".join(lines)),
        warning="" if done.ok else settings.hide(_why(done, hook)),
    )


def _environment(context: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **context}


def _why(done: Completed, hook: Hook) -> str:
    if done.timed_out:
        return f"it ran longer than {hook.timeout_s:g} s and was stopped"
    return f"exit code {done.exit_code}"


def _with_output(result: HookResult) -> str:
    return "\n  ".join([result.warning, *result.output.splitlines()])
