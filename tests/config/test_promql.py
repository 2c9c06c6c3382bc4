"""What is known of PromQL queries without asking Prometheus."""

from __future__ import annotations

import pytest

from opsctl.config import promql


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("up", ("up",)),
        ('http_requests_total{code="200",job=~"a|b"}', ("http_requests_total",)),
        ("rate(a_total[5m]) / on(instance) group_left(version) b_info", ("a_total", "b_info")),
        ("sum by (le, job) (rate(latency_bucket[30s]))", ("latency_bucket",)),
        ("sum(rate(x[1m])) without (pod)", ("x",)),
        ("histogram_quantile(0.99, sum(rate(h_bucket[1m] offset 5m)) by (le))", ("h_bucket",)),
        ("a and b unless c or vector(1)", ("a", "b", "c")),
        ("A AND b > bool 1e3 + Inf", ("A", "b")),
        ('{__name__="by_label",job="x"}', ("by_label",)),
        ('{__name__=~"many.*"}', ()),
        ("job:errors:rate5m", ("job:errors:rate5m",)),
        ('label_replace(up, "a", "$1", "b", "(c)") # comment d', ("up",)),
        ("avg_over_time(g{x='}[1m](q'}[10m:30s])", ("g",)),
        ("up + up", ("up",)),
    ],
)
def test_metric_names_are_found_among_functions_labels_and_words(
    query: str, names: tuple[str, ...]
) -> None:
    assert promql.metric_names(query) == names


@pytest.mark.parametrize(
    ("query", "seconds"),
    [("up", 0.0), ("rate(a[90s])", 90.0), ("max_over_time(a[1h30m:1m])", 5400.0),
     ("rate(a[5m]) / rate(b[ 100ms ])", 300.0), ('a{x="[1d]"}', 0.0)],
)  # fmt: skip
def test_the_longest_range_is_in_seconds(query: str, seconds: float) -> None:
    assert promql.longest_range_s(query) == seconds


def test_placeholders_are_filled_and_escaped_and_selectors_are_left_alone() -> None:
    query = 'a{release="{release}",pod=~"{replica}.*"} / b{x="1"}'
    assert promql.unknown_placeholders(query) == ()
    values = dict.fromkeys(promql.KNOWN, "") | {"release": 'r1"\\', "replica": "r1-1"}
    filled = 'a{release="r1\\"\\\\",pod=~"r1-1.*"} / b{x="1"}'
    assert promql.fill(query, values) == filled


def test_the_family_of_a_series_is_among_the_names_that_metadata_may_know() -> None:
    assert promql.families("latency_seconds_bucket") == (
        "latency_seconds_bucket", "latency_seconds",
    )  # fmt: skip
    assert promql.families("up") == ("up",)
