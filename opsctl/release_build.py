"""`app.build`: the user's own build command, run once in the release's copy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from opsctl.config.placeholders import fill
from opsctl.config.settings import App
from opsctl.errors import BuildFailed
from opsctl.release import Launch
from opsctl.shell import Completed, run

LOG_LINES = 20
"""Last lines of the build's output that the error shows."""


def run_build(
    app: App, launch: Launch, name: str, log: Path, interrupt: Callable[[], None]
) -> None:
    """Run the build command; its output goes to `log`. Raises `BuildFailed`."""
    values = {
        "python": launch.python,
        "model": launch.model_path,
        "release": name,
        "host": "",
        "port": "",
        "health_port": "",
        "replica": "",
    }
    done = run(
        [fill(word, values) for word in app.build],
        timeout_s=app.build_timeout_s,
        cwd=Path(launch.directory),
        env=_environment(app, name),
        interrupt=interrupt,
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"$ {' '.join(done.argv)}\n{done.stdout}{done.stderr}", encoding="utf-8")
    if not done.ok:
        raise BuildFailed(
            f"the build of {name} failed ({' '.join(app.build)})",
            why=_why(done, app),
            next_step=f"Repair it (its whole output: {log}), then run the same again",
        )


def _environment(app: App, name: str) -> dict[str, str]:
    """opsctl's own environment, as builds need compilers and proxies, less the secrets in it."""
    secret = {source.env for source in app.secrets.values()}
    own = {key: value for key, value in os.environ.items() if key not in secret}
    return {**own, **app.env, "OPSCTL_RELEASE": name}


def _why(done: Completed, app: App) -> str:
    if done.timed_out:
        return f"it ran longer than {app.build_timeout_s:g} s (app.build_timeout_s)"
    lines = f"{done.stdout}{done.stderr}".strip().splitlines()[-LOG_LINES:]
    return "\n  ".join([f"exit code {done.exit_code}", *lines])
