"""What must hold between the keys of a section; one function a section, listed in a table."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from opsctl.config import (
    bench_rules,
    dependencies,
    docker_rules,
    kubernetes_rules,
    local_rules,
    placeholders,
    promql,
)
from opsctl.config import settings as s
from opsctl.config.building import Sources
from opsctl.config.nodes import MapNode, Node
from opsctl.config.problems import Problems, nearest, shown
from opsctl.config.urls import url_problem

NAME = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
"""A DNS label that begins with a letter (RFC 1035), so that names can be those of objects."""

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_URL_NAME = r"[A-Za-z0-9._-]+"
_RESERVED_PREFIX = "OPSCTL_"

PORTS_A_REPLICA = 2
"""One for requests, one for health and metrics."""

VALUES_LEAST = 12
"""Values of a query that must come in before any verdict of equal arms is possible."""

RELEASES_AT_ONCE = 3
"""The old one, the new one, and a baseline copy or an older warm one."""


class Section:
    """One section under check: notes a problem at the line of one of its keys."""

    def __init__(self, node: MapNode, problems: Problems) -> None:
        self.node = node
        self._problems = problems

    def inside(self, *keys: str) -> Section:
        """The section that lies under `keys`, all of which the file has."""
        node: Node = self.node
        for key in keys:
            assert isinstance(node, MapNode)
            node = node.entries[key].node
        assert isinstance(node, MapNode)
        return Section(node, self._problems)

    def wrong(self, key: str, what: str) -> None:
        """Note a problem of `key` (of the section itself when the key is not in the file)."""
        first = re.split(r"[.[]", key)[0]
        entry = self.node.entries.get(first)
        if entry:
            self._problems.add(entry.line, entry.path + key.removeprefix(first), what)
        else:
            self._problems.add(self.node.line, self.node.child_path(key), what)

    def has(self, key: str) -> bool:
        """Whether the file sets the key here (to anything but null)."""
        entry = self.node.entries.get(key)
        return entry is not None and not entry.node.is_null

    def exactly_one(self, keys: tuple[str, ...]) -> None:
        """Exactly one of the keys must be set."""
        given = [key for key in keys if self.has(key)]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            self.wrong(
                given[-1] if given else keys[0],
                f"exactly one of {', '.join(keys)} is needed; found {found}",
            )

    def command(self, key: str, value: tuple[str, ...], *, needed: bool = True) -> None:
        """A command must name a program."""
        if (needed and not value) or (value and not value[0].strip()):
            self.wrong(key, "the command is empty; allowed: a list, the program first")

    def rooted(self, key: str, value: str | None) -> None:
        """A URL path must begin with a slash and hold no space."""
        if value is not None and not re.fullmatch(r"/[\x21-\x7e]*", value):
            self.wrong(
                key,
                f'found "{shown(value)}"; allowed: a path that begins with / and has no spaces'
                " (other characters as %XX)",
            )

    def filled(self, key: str, value: str | None) -> None:
        """A text must not be empty."""
        if value is not None and not value.strip():
            self.wrong(key, "the text is empty")

    def url(self, key: str, value: str | None, **rules: Any) -> None:
        """A URL must be one that a request can be sent to; `rules` are those of `url_problem`."""
        problem = "" if value is None else url_problem(value, **rules)
        if problem:
            self.wrong(key, f'found "{shown(value or "")}"; {problem}')

    def headers(self, value: Any) -> None:
        """Header names and values must be what HTTP can carry."""
        for name, text in value.items():
            if not re.fullmatch(_HEADER_NAME, name):
                self.wrong(f"headers.{shown(name)}", "is no name of an HTTP header")
            elif not re.fullmatch(r"[\t\x20-\x7e]*", text):
                self.wrong(f"headers.{name}", "allowed: printable ASCII on one line")


def check_relations(value: Any, node: MapNode, problems: Problems) -> None:
    """Check one converted section against its node; problems are noted."""
    check = _CHECKS.get(type(value))
    if check:
        check(value, Section(node, problems))


def _secret_source(value: s.SecretSource, at: Section) -> None:
    at.exactly_one(("env", "file", "command"))
    at.filled("env", value.env)
    at.filled("file", value.file)
    if at.has("command"):
        at.command("command", value.command)


def _app(value: s.App, at: Section) -> None:
    at.filled("directory", value.directory)
    at.command("command", value.command)
    at.command("build", value.build, needed=False)
    for index, argument in enumerate(value.command):
        try:
            placeholders.names(argument)
        except placeholders.BadPlaceholder as error:
            known = ", ".join(f"{{{name}}}" for name in placeholders.KNOWN)
            near = nearest(error.name, placeholders.KNOWN) if error.name else ""
            hint = f" (did you mean {{{near}}}?)" if near else ""
            at.wrong(f"command[{index}]", f"{error}; allowed: {known}, {{{{ and }}}}{hint}")
    for key, names in (("env", value.env), ("secrets", value.secrets)):
        for name in names:
            if not re.fullmatch(_VARIABLE, name):
                at.wrong(f"{key}.{shown(name)}", "is no name of an environment variable")
            elif name.startswith(_RESERVED_PREFIX):
                at.wrong(f"{key}.{name}", f"names with {_RESERVED_PREFIX} are opsctl's own")
    for name in sorted(set(value.env) & set(value.secrets)):
        at.wrong(f"secrets.{name}", "stands in env too; allowed: one of both")


def _model(value: s.Model, at: Section) -> None:
    at.filled("path", value.path)
    if not re.fullmatch(_URL_NAME, value.name):
        at.wrong("name", f'found "{shown(value.name)}"; allowed: letters, digits, ".", "_", "-"')


def _resources(value: s.Resources, at: Section) -> None:
    if len(set(value.cpus)) != len(value.cpus):
        at.wrong("cpus", "a CPU stands twice")


def _health(value: s.Health, at: Section) -> None:
    at.rooted("path", value.path)
    at.rooted("live_path", value.live_path)
    if value.streak > value.tries:
        at.wrong("streak", f"{value.streak} successes can't come in {value.tries} tries")


def _expectation(value: s.JsonExpectation, at: Section) -> None:
    at.filled("path", value.path)


def _smoke_test(value: s.SmokeTest, at: Section) -> None:
    at.exactly_one(("path", "run"))
    at.filled("name", value.name)
    at.rooted("path", value.path)
    at.headers(value.headers)
    if at.has("run"):
        at.command("run", value.run)
    if "body" in at.node.entries and at.has("body_file"):
        at.wrong("body_file", "body is set too; allowed: one of both")


def _gate(value: s.Gate, at: Section) -> None:
    for name in ("p50", "p99"):
        tolerated = getattr(value, f"tolerated_{name}_percent")
        refused = getattr(value, f"refused_{name}_percent")
        if refused <= tolerated:
            at.wrong(
                f"refused_{name}_percent",
                f"{refused:g} must be more than tolerated_{name}_percent ({tolerated:g})",
            )
    if not value.metrics:
        at.wrong("metrics", "the list is empty; `enabled: false` turns the gate off")
    if len(set(value.metrics)) != len(value.metrics):
        at.wrong("metrics", "a metric stands twice")
    if value.prometheus and value.budget_s < VALUES_LEAST * value.prometheus.interval_s:
        at.wrong(
            "budget_s",
            f"{value.budget_s:g} s are too short for {VALUES_LEAST} values of prometheus, one each"
            f" {value.prometheus.interval_s:g} s",
        )


def _prometheus(value: s.Prometheus, at: Section) -> None:
    at.url("url", value.url, credentials_in="token")
    if value.token is not None and value.url.startswith("http://"):
        at.wrong("token", "would travel in the clear over http://; allowed: a url with https://")
    if value.ca_file is not None and value.url.startswith("http://"):
        at.wrong("ca_file", "is for a url with https://")
    if not value.queries:
        at.wrong("queries", "the list is empty")
    names = [query.name for query in value.queries]
    for name in sorted({name for name in names if names.count(name) > 1}):
        at.wrong("queries", f'the name "{shown(name)}" stands twice')
    for index, query in enumerate(value.queries):
        reach = promql.longest_range_s(query.query)
        if reach > value.interval_s:
            at.wrong(
                f"queries[{index}].query",
                f"its range of {reach:g} s is longer than interval_s ({value.interval_s:g}):"
                " values would overlap",
            )


def _prometheus_query(value: s.PrometheusQuery, at: Section) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,59}", value.name):
        at.wrong("name", 'allowed: letters, digits, " ", "_", ".", "-"; 60 at most')
    unknown = promql.unknown_placeholders(value.query)
    for name in unknown:
        near = nearest(name, promql.KNOWN)
        hint = f" (did you mean {{{near}}}?)" if near else ""
        known = ", ".join(f"{{{one}}}" for one in promql.KNOWN)
        at.wrong("query", f"placeholder {{{name}}} is not known; allowed: {known}{hint}")
    if value.refused_percent is not None and not (unknown or promql.is_about_one_arm(value.query)):
        at.wrong("query", "gives old and new the same value; use {replica}, {host} or {release}")
    if value.refused_percent is not None and value.refused_percent <= value.tolerated_percent:
        at.wrong(
            "refused_percent",
            f"{value.refused_percent:g} must be more than tolerated_percent"
            f" ({value.tolerated_percent:g})",
        )
    if value.refused_percent is None and value.least is None and value.most is None:
        at.wrong("refused_percent", "without it `least` or `most` is needed, or nothing judges")
    if value.least is not None and value.most is not None and value.least > value.most:
        at.wrong("least", f"{value.least:g} is more than most ({value.most:g})")


def _strategy(value: s.Strategy, at: Section) -> None:
    weights = [stage.weight for stage in value.stages]
    if weights != sorted(set(weights)):
        at.wrong("stages", f"weights {weights} must rise from stage to stage")
    if value.type == "canary" and not value.stages:
        at.wrong("stages", "a canary needs a stage (without one: type: blue-green)")


def _hook(value: s.Hook, at: Section) -> None:
    at.command("run", value.run)


def _notification(value: s.Notification, at: Section) -> None:
    at.url("url", value.url)
    if not value.events:
        at.wrong("events", "the list is empty")


def _sources(value: Sources, at: Section) -> None:
    at.url("index", value.index, schemes=("http", "https", "file"))
    at.url("apt_mirror", value.apt_mirror, schemes=("http", "https", "file"))
    at.url("apt_proxy", value.apt_proxy)
    at.url("proxy", value.proxy)


def _service(value: s.Service, at: Section) -> None:
    used = {name for argument in value.app.command for name in placeholders.names(argument)}
    if "model" in used and value.model is None:
        at.wrong("app.command", "{model} is used, but the service has no `model` section")
    docker_rules.ports_apart(value.docker, used, at)
    local_rules.state_apart(value, at)
    first, last = value.local.replica_ports
    needed = PORTS_A_REPLICA * RELEASES_AT_ONCE * value.replicas
    if last - first + 1 < needed:
        at.wrong(
            "local.replica_ports",
            f"{last - first + 1} ports are too few: `replicas: {value.replicas}` needs {needed}"
            f" ({RELEASES_AT_ONCE} releases at once, {PORTS_A_REPLICA} ports a replica)",
        )
    smoke_names = [test.name for test in value.smoke]
    for name in sorted({name for name in smoke_names if smoke_names.count(name) > 1}):
        at.wrong("smoke", f'the name "{shown(name)}" stands twice')
    if value.bench and value.gate.enabled:
        _check_budget(value.bench, value.gate, at)


def _check_budget(bench: s.Bench, gate: s.Gate, at: Section) -> None:
    sizes = len(bench.sizes)
    shortest_s = sizes * gate.min_pairs / bench.rate_per_s
    if shortest_s > gate.budget_s:
        at.wrong(
            "gate.budget_s",
            f"{gate.budget_s:g} s are too short: {gate.min_pairs} pairs for each of"
            f" {sizes} batch sizes take {shortest_s:g} s at"
            f" {bench.rate_per_s:g} pairs a second",
        )


def _config(value: s.Config, at: Section) -> None:
    for section, names in (("services", value.services), ("environments", value.environments)):
        if not names:
            at.wrong(section, "the map is empty; one name at least is needed")
        for name in names:
            if not re.fullmatch(NAME, name):
                at.wrong(
                    f"{section}.{shown(name)}" if name else f'{section}.""',
                    "allowed in names: a-z, 0-9 and -, a letter first, 63 characters at most",
                )
    dependencies.check(value.services, at)


_CHECKS: dict[type, Callable[[Any, Section], None]] = {
    s.SecretSource: _secret_source,
    s.App: _app,
    s.Model: _model,
    s.Resources: _resources,
    s.Health: _health,
    s.JsonExpectation: _expectation,
    s.SmokeTest: _smoke_test,
    s.Bench: bench_rules.bench,
    s.Gate: _gate,
    s.Prometheus: _prometheus,
    s.PrometheusQuery: _prometheus_query,
    s.Strategy: _strategy,
    s.Hook: _hook,
    s.Notification: _notification,
    Sources: _sources,
    s.Local: local_rules.local,
    s.Docker: docker_rules.docker,
    s.Npus: docker_rules.npus,
    s.Npu: kubernetes_rules.npu,
    s.Gateway: kubernetes_rules.gateway,
    s.Kubernetes: kubernetes_rules.kubernetes,
    s.Compose: kubernetes_rules.compose,
    s.Service: _service,
    s.Config: _config,
}
