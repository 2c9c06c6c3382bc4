"""Commands that only look: status, history, logs, health, smoke, releases, lock, audit."""

from __future__ import annotations

import time
from collections.abc import Iterator

from opsctl.commands.chosen import check_kept, chosen_release
from opsctl.commands.outcome import Outcome, simple
from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import JournalBroken, OpsctlError, TargetUnreachable
from opsctl.model import Json, Observed
from opsctl.reader import Reader, reader
from opsctl.rollout import Progress, next_step


def status(look: Reader) -> Outcome:
    """What serves, what runs, which rollout is open and who is at work."""
    project = look.project
    observed, silence = _observed(look)
    going = _open(look)
    holder = look.storage.holder()
    state = observed.desired if observed else look.last_state()
    exit_code = silence.exit_code if silence else 0
    data: Json = {
        "outcome": "unreachable" if silence else "ok",
        "exit_code": exit_code,
        "error": silence.to_dict() if silence else None,
        "service": project.service_name,
        "environment": project.environment,
        "target": project.target,
        "serving_release": state.serving_release,
        "desired": state.to_dict(),
        "observed": observed.to_dict() if observed else None,
        "rollout": _rollout_data(going) if going else None,
        "holder": holder.to_dict() if holder else None,
    }
    return Outcome(exit_code, data, "\n".join(_status_lines(project, data, observed, going)))


def _observed(look: Reader) -> tuple[Observed | None, TargetUnreachable | None]:
    """What runs, or why that can't be known."""
    try:
        return look.target.observe(), None
    except TargetUnreachable as error:
        return None, error


def _open(look: Reader) -> Progress | None:
    try:
        return look.open_progress()
    except JournalBroken:
        return None


def _rollout_data(going: Progress) -> Json:
    step = next_step(going)
    return {
        "number": going.rollout,
        "op": going.op,
        "candidate": going.candidate,
        "base": going.base,
        "step": step.id if step else None,
        "title": step.title if step else None,
        "waiting": going.waiting or None,
        "paused": going.paused,
        "undoing": going.undoing,
        "failed": dict(going.failed) if going.failed else None,
    }


def _status_lines(
    project: Project, data: Json, observed: Observed | None, going: Progress | None
) -> Iterator[str]:
    serving = data["serving_release"] or "nothing"
    if data["error"]:
        error = data["error"]
        why = f": {error['why']}" if error["why"] else ""
        where = f"{serving} served last; nobody can say what runs, as {error['what']}{why}"
    elif observed and observed.front_url:
        where = f"{serving} serves at {observed.front_url}"
    elif data["serving_release"]:
        where = f"nothing runs, {serving} should (opsctl resume brings it back)"
    else:
        where = "nothing serves (opsctl deploy)"
    yield f"{project.service_name} ({project.environment}, {project.target}): {where}"
    for share in data["desired"]["shares"]:
        warm = _warm(share["retire_at"])
        yield f"  {share['release']}  weight {share['weight']:3d} %  {share['role']}{warm}"
    for replica in observed.replicas if observed else ():
        note = f"  {replica.reason}" if replica.reason and replica.phase != "ready" else ""
        rss = f"{replica.rss_bytes / 2**20:.0f} MiB"
        yield (
            f"    {replica.name:10s} {replica.phase:10s} pid {replica.pid} port {replica.port}"
            f" {rss} restarts {replica.restarts}{note}"
        )
    if observed and observed.trouble:
        yield f"  trouble: {observed.trouble}"
    if observed and observed.guarded:
        yield f"  guard: {observed.guard_reason}"
    if going:
        doing = data["rollout"]
        state = "waits for a person" if going.waiting or going.paused else "open"
        title = f"{doing['op']} of {doing['candidate']}, {doing['title']}"
        yield f"  rollout {doing['number']} {state}: {title}"
    if data["holder"]:
        holder = data["holder"]
        yield f"  at work: pid {holder['pid']} ({holder['actor']}, {holder['command']})"


def _warm(retire_at: float | None) -> str:
    if retire_at is None:
        return ""
    left = max(0.0, retire_at - time.time())
    return f", warm for {left:.0f} s more"


def history(project: Project, limit: int) -> Outcome:
    """The rollouts, newest first."""
    look = reader(project)
    rows = []
    for segment in look.journal.all():
        opened, last = segment.records[0], segment.records[-1]
        ended = last.data if last.kind == "closed" else {}
        rows.append(
            {
                "rollout": segment.number,
                "op": opened.data["op"],
                "release": opened.data["candidate"],
                "base": opened.data["base"],
                "actor": opened.data.get("actor", ""),
                "began": opened.time,
                "seconds": round(last.time - opened.time, 3),
                "outcome": ended.get("outcome", "open"),
                "exit_code": ended.get("exit_code"),
                "serving_release": ended.get("serving_release"),
                "reason": ended.get("reason", ""),
            }
        )
    rows = rows[::-1][:limit]
    lines = [
        f"{row['rollout']:4d}  {_date(row['began'])}  {row['op']:8s} {row['release']:6s}"
        f" {row['outcome']:18s} {row['seconds']:7.1f} s  {row['actor']}"
        f"  {' '.join(row['reason'].split())}"
        for row in rows
    ]
    text = "\n".join(lines) or "nothing was ever deployed here"
    return simple("ok", text, rollouts=rows)


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def releases(project: Project) -> Outcome:
    """The releases that are kept, with what is known of them."""
    look = reader(project)
    marks = look.marks()
    serving = look.last_state().serving_release
    rows: list[Json] = []
    for release in look.store.list():
        mark = "serving" if release.name == serving else ""
        if release.name in marks.rejected:
            mark = "rejected"
        elif not mark and release.name in marks.proved:
            mark = "proved"
        rows.append({"release": release.name, "mark": mark, "digest": release.digest,
                     "created": release.created})  # fmt: skip
    lines = [
        f"{row['release']:6s} {row['mark']:9s} {_date(row['created'])}  {row['digest'][:12]}"
        for row in rows
    ]
    return simple("ok", "\n".join(lines) or "no releases", releases=rows)


def release(project: Project, name: str) -> Outcome:
    """One release, whole."""
    look = reader(project)
    check_kept(look, name)
    import json

    data = look.store.get(name).to_dict()
    return simple("ok", json.dumps(data, indent=2), release=data)


def logs(project: Project, name: str | None, lines: int, follow: bool) -> Iterator[str]:
    """Log lines of a release, by default of the one that serves."""
    look = reader(project)
    return look.target.logs(chosen_release(look, name), lines=lines, follow=follow)


def health(project: Project, console: Console, watched_s: float = 0.0) -> Outcome:
    """Whether the service is well, check by check; 13 when it is not.

    With `watched_s` what serves is held against the live limits of a rollout for so long first.
    Raises HealthFailed when it breaks one.
    """
    from opsctl.checks.health import check_service

    look = reader(project)
    if watched_s:
        _watch(look, console, watched_s)
    findings = check_service(look.target, project)
    bad = [f for f in findings if f.status == "fail"]
    lines = [
        f"{f.status:7s} {f.check}: {f.what}" + (f" → {f.next_step}" if f.next_step else "")
        for f in findings
    ]
    state = look.observed()
    serving = state.desired.serving_release if state else None
    return simple(
        "unhealthy" if bad else "healthy",
        "\n".join(lines),
        13 if bad else 0,
        serving_release=serving,
        findings=[f.to_dict() for f in findings],
    )


def _watch(look: Reader, console: Console, watched_s: float) -> None:
    from opsctl.checks.front_door import safe_request
    from opsctl.checks.live import Trial, watch_live
    from opsctl.model import LiveLimits
    from opsctl.wait import Wait

    service = look.project.service
    serving = look.target.observe().desired.serving_release
    if serving is None:
        return
    limits = LiveLimits(service.strategy.max_error_rate, service.strategy.min_requests)
    trial = Trial(serving, limits, watched_s, safe_request(service, look.project.root))
    watch_live(look.target, trial, Wait(look.clock, console.tell, lambda: None))


def smoke(project: Project, name: str | None) -> Outcome:
    """Run the smoke tests against a release that runs, by default the one that serves."""
    from opsctl.checks.smoke import run_smoke

    look = reader(project)
    chosen = chosen_release(look, name)
    results = run_smoke(
        look.target,
        look.store.get(chosen),
        project.service.smoke,
        project.root,
        lambda: None,
    )
    lines = [f"ok      {result.test} ({result.replica})" for result in results]
    rows = [result.to_dict() for result in results]
    return simple("passed", "\n".join(lines) or "no smoke tests", results=rows, release=chosen)


def lock_status(project: Project) -> Outcome:
    """Who is at work."""
    holder = reader(project).storage.holder()
    if holder is None:
        return simple("free", "free", holder=None)
    text = f"held by {holder.where} ({holder.actor}, {holder.command})"
    return simple("held", text, holder=holder.to_dict())


def lock_release(project: Project, *, force: bool) -> Outcome:
    """Take the lock from a holder that no longer moves."""
    look = reader(project)
    holder = look.storage.holder()
    if holder is None:
        return simple("free", "the lock is free")
    look.clock.sleep(2.5)
    again = look.storage.holder()
    if again and again.beat != holder.beat and not force:
        raise OpsctlError(
            f"{holder.where} is alive and at work",
            why="its heartbeat moves",
            next_step="Use opsctl abort, or --force to take the lock from it",
        )
    look.storage.break_lock()
    return simple("released", f"the lock of {holder.where} is void; opsctl resume goes on")


def audit(project: Project) -> Outcome:
    """Who did what and when, with the journal's chain checked."""
    look = reader(project)
    look.journal.verify()
    rows = []
    for segment in look.journal.all():
        for record in segment.records:
            row = _audit_row(segment.number, record.kind, record.data)
            if row:
                rows.append({"time": record.time, "epoch": record.epoch, **row})
    lines = [
        f"{_date(row['time'])}  rollout {row['rollout']:4d}  {row['what']}  {row['by']}"
        for row in rows
    ]
    return simple("ok", "\n".join(lines) or "nothing yet", records=rows)


def _audit_row(number: int, kind: str, data: Json) -> Json | None:
    if kind == "opened":
        what = f"{data['op']} {data['candidate']}"
        return {"rollout": number, "what": what, "by": data.get("actor", "")}
    if kind == "requested":
        reason = f" ({data['reason']})" if data.get("reason") else ""
        return {"rollout": number, "what": f"{data['request']}{reason}", "by": data["by"]}
    if kind == "closed":
        return {"rollout": number, "what": f"ended: {data['outcome']}", "by": ""}
    return None
