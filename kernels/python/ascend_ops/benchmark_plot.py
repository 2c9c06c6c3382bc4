"""The benchmark as a picture: times on logarithmic axes, and speedups with a line at 1×."""

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from ascend_ops.benchmark import BenchmarkReport


def plot(report: "BenchmarkReport", path: Path) -> None:
    """Writes a PNG with a row of two panels for each operator."""
    operators = sorted({row.operator for row in report.rows})
    figure = Figure(figsize=(12, 4.5 * len(operators)), layout="constrained")
    axes = figure.subplots(len(operators), 2, squeeze=False)
    for (times, bars), operator in zip(axes, operators, strict=True):
        dtypes = sorted({row.dtype for row in report.rows if row.operator == operator})
        for index, dtype in enumerate(dtypes):
            rows = [r for r in report.rows if (r.operator, r.dtype) == (operator, dtype)]
            sizes = [row.elements for row in rows]
            colour = f"C{index}"
            times.plot(sizes, [r.custom.median_us for r in rows], f"{colour}o-", label=dtype)
            times.plot(sizes, [r.native.median_us for r in rows], f"{colour}x--")
            offset = (index - (len(dtypes) - 1) / 2) * 0.8 / len(dtypes)
            places = [place + offset for place in range(len(rows))]
            bars.bar(places, [r.ratio.speedup for r in rows], 0.8 / len(dtypes), label=dtype)
            bars.set_xticks(range(len(rows)), [str(size) for size in sizes], rotation=30)
        times.set(xscale="log", yscale="log", xlabel="elements", ylabel="median time, µs")
        times.set_title(f"{operator}: custom solid, TensorFlow dashed")
        times.legend()
        bars.axhline(1.0, color="black", linewidth=1)
        bars.set(xlabel="elements", ylabel="speedup, ×", title=f"{operator}: native ÷ custom")
        bars.legend()
    figure.savefig(path, dpi=120)
