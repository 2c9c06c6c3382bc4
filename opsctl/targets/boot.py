"""Starting a service with the machine: a systemd unit, or a crontab line where there is none."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from opsctl import shell
from opsctl.config.settings import Project
from opsctl.errors import TargetUnreachable

COMMAND_TIMEOUT_S = 20.0
SYSTEM_UNITS = Path("/etc/systemd/system")
SYSTEMD_RUNS = Path("/run/systemd/system")
"""Exists exactly when systemd is the init system (sd_booted(3))."""


@dataclass(frozen=True)
class BootEntry:
    """What is to run at boot, and under which name."""

    name: str
    argv: tuple[str, ...]
    directory: Path

    @classmethod
    def of(cls, project: Project) -> BootEntry:
        """`opsctl resume` of this service; the name is unique on the machine."""
        argv = (
            sys.executable, "-m", "opsctl.cli", "resume", "-c", str(project.path),
            "-e", project.environment, "--service", project.service_name,
        )  # fmt: skip
        mark = hashlib.sha256(str(project.service_dir).encode()).hexdigest()[:8]
        return cls(f"opsctl-{project.service_name}-{mark}", argv, project.root)

    def unit(self, *, system: bool) -> str:
        """The systemd unit (systemd.service(5)). Replicas outlive its command and its end."""
        target = "multi-user.target" if system else "default.target"
        command = " ".join(_quoted(word) for word in self.argv)
        return (
            f"[Unit]\nDescription=opsctl: start {self.name}\nAfter=network.target\n\n"
            f"[Service]\nType=oneshot\nRemainAfterExit=yes\nKillMode=process\n"
            f"WorkingDirectory={_escaped(str(self.directory))}\nExecStart={command}\n\n"
            f"[Install]\nWantedBy={target}\n"
        )

    def cron_line(self) -> str:
        """The crontab line (crontab(5)); a per cent sign would end the command there."""
        command = f"cd {shlex.quote(str(self.directory))} && {shlex.join(self.argv)}"
        return f"@reboot {command.replace('%', chr(92) + '%')} # {self.name}"


def keep(project: Project, wanted: bool) -> None:
    """Have the service start at boot, or not. The same call twice changes nothing.

    Raises TargetUnreachable when it is wanted and the machine offers no way.
    """
    import shutil  # costs `status` a third of its time

    entry = BootEntry.of(project)
    if SYSTEMD_RUNS.is_dir():
        _keep_unit(entry, wanted)
    elif shutil.which("crontab"):
        _keep_cron(entry, wanted)
    elif wanted:
        raise TargetUnreachable(
            "the service can't be started at boot",
            why="neither systemd nor crontab is on this machine",
            next_step=f"Set local.start_at_boot: false, and have this run at boot:"
            f" {shlex.join(entry.argv)}",
        )


def unit_folder() -> Path:
    """Where units of this user belong."""
    if os.geteuid() == 0:
        return SYSTEM_UNITS
    # A user without a home has no units: the name stays as it is, and no such file exists.
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "systemd" / "user"


def _keep_unit(entry: BootEntry, wanted: bool) -> None:
    system = os.geteuid() == 0
    path = unit_folder() / f"{entry.name}.service"
    text = entry.unit(system=system)
    present = path.read_text() if path.is_file() else ""
    if (wanted and present == text) or (not wanted and not present):
        return
    scope = [] if system else ["--user"]
    if wanted and not path.is_absolute():
        raise TargetUnreachable(
            "the service can't be started at boot",
            why="this user has no home directory for its systemd units",
            next_step="Set HOME, or local.start_at_boot: false",
        )
    if wanted:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        _run(["systemctl", *scope, "daemon-reload"])
        _run(["systemctl", *scope, "enable", path.name])
        if not system:
            # Without it a user's services start at the first login, not at boot (loginctl(1)).
            _run(["loginctl", "enable-linger"])
    else:
        _run(["systemctl", *scope, "disable", path.name])
        path.unlink()
        _run(["systemctl", *scope, "daemon-reload"])


def _keep_cron(entry: BootEntry, wanted: bool) -> None:
    listed = shell.run(["crontab", "-l"], timeout_s=COMMAND_TIMEOUT_S)
    lines = listed.stdout.splitlines() if listed.ok else []
    rest = [line for line in lines if not line.endswith(f"# {entry.name}")]
    new = [*rest, entry.cron_line()] if wanted else rest
    if new != lines:
        _run(["crontab", "-"], stdin="".join(f"{line}\n" for line in new))


def _run(argv: list[str], stdin: str = "") -> None:
    done = shell.run(argv, timeout_s=COMMAND_TIMEOUT_S, stdin=stdin)
    if not done.ok:
        raise TargetUnreachable(
            f"cannot arrange the start at boot: {shlex.join(argv)}",
            why=done.why,
            next_step="Set local.start_at_boot: false, or allow it.",
        )


def _escaped(text: str) -> str:
    """Per cent signs are specifiers in units (systemd.unit(5))."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """One word of ExecStart= (systemd.syntax(7)); `$` would be a variable."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_escaped(escaped)}"'
