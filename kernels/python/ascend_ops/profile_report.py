"""The analysis of a profile as text and as a picture."""

from pathlib import Path

from ascend_ops.errors import InvalidInputError
from ascend_ops.profile_analysis import Analysis


def percent(value: float | None) -> str:
    """`12%`, or `unknown`."""
    return "unknown" if value is None else f"{100 * value:.0f}%"


def format_analysis(analysis: Analysis) -> str:
    """Lines for people."""
    time = analysis.latency
    lines = [
        f"{analysis.generation} · {analysis.tasks} tasks · {analysis.devices} device(s)",
        (
            f"latency mean {time.mean_us:.1f} · p50 {time.p50_us:.1f} · p95 {time.p95_us:.1f} · "
            f"p99 {time.p99_us:.1f} µs ({time.count} iteration(s), from {time.source})"
        ),
        f"throughput {analysis.throughput_per_s:.1f} iterations/s",
        (
            f"compute {percent(analysis.compute_utilisation)} · bandwidth "
            f"{percent(analysis.bandwidth_utilisation)} ({analysis.bandwidth_basis}) · "
            f"waiting {percent(analysis.idle)}"
        ),
        "",
        (
            f"{'op':28} {'core':15} {'count':>7} {'total µs':>12} {'mean µs':>10} {'share':>6}  "
            "busiest pipe"
        ),
    ]
    lines += [
        f"{op.type[:28]:28} {op.core[:15]:15} {op.count:7d} {op.total_us:12.1f} "
        f"{op.mean_us:10.2f} {100 * op.share:5.1f}%  {op.bound_by}"
        for op in analysis.top
    ]
    lines += ["", *(f"bottleneck: {text}" for text in analysis.bottlenecks)]
    lines += [
        f"recommendation: {advice.what}. Why: {advice.why}. Expected gain, an estimate: "
        f"{advice.gain_percent[0]}–{advice.gain_percent[1]}%"
        for advice in analysis.recommendations
    ]
    if not analysis.recommendations:
        lines.append("no recommendation: compute and bandwidth are well used, or not profiled")
    return "\n".join(lines)


def plot(analysis: Analysis, path: Path) -> None:
    """Bars of the top ops' time, and of utilisation with the lines that are judged by, as PNG."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            f"cannot draw: {error}. Install it: pip install 'ascend-ops[plot]'"
        ) from error
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    names = [f"{op.type} ({op.core})" for op in reversed(analysis.top)]
    left.barh(names, [op.total_us for op in reversed(analysis.top)])
    left.set_xlabel("total time in µs")
    left.set_title("ops by time")
    values = {"compute": analysis.compute_utilisation, "bandwidth": analysis.bandwidth_utilisation}
    known = {name: 100 * value for name, value in values.items() if value is not None}
    right.bar(list(known), list(known.values()))
    right.set_ylim(0, 100)
    right.set_ylabel("utilisation in %")
    right.axhline(50, linestyle=":", label="compute: fuse below 50%")
    right.axhline(60, linestyle="--", label="bandwidth: access pattern below 60%")
    right.legend(fontsize="small")
    FigureCanvasAgg(figure)
    try:
        figure.savefig(path, format="png", dpi=120)
    except OSError as error:
        raise InvalidInputError(
            f"cannot write {path}: {error.strerror}. Choose another place: --plot FILE"
        ) from error
