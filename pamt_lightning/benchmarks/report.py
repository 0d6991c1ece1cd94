"""The figures of a benchmark for people: a table on the screen, Markdown, JSON, a plot."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pamt_lightning.benchmarks.clock import Row
from pamt_lightning.benchmarks.growth import Size, exponent
from pamt_lightning.plots import growth_image, plots_available
from pamt_lightning.training.folders import write_whole

TITLES = {
    "epoch": "An epoch beside APPNP of PyTorch Geometric on dense attributes",
    "trainer": "An epoch under the Trainer beside a plain loop",
    "fit": "A training until it stops beside as many epochs of APPNP",
    "refresh": "A refresh beside the dense formula",
    "layer": "The first layer beside the time its bytes take to copy",
    "propagation": "A step of propagation beside the time its bytes take to copy",
}
MEASURED = {"epoch": "epoch", "refresh": "refresh", "memory": "memory"}


def markdown(
    tables: Mapping[str, Sequence[Row]], sizes: Sequence[Size], machine: Mapping[str, Any]
) -> str:
    """All figures as Markdown tables."""
    lines = ["# Benchmark", ""]
    lines += [
        "Written by `pamt benchmark`. Ratios are medians over rounds in which both sides took "
        "turns, in one process; in brackets the smallest and the largest. They can be compared "
        "between machines, seconds cannot.",
        "",
        ", ".join(f"{name} {value}" for name, value in machine.items()) + ".",
    ]
    for name, rows in tables.items():
        if not rows:
            continue
        columns = list(rows[0].seconds)
        lines += ["", f"## {TITLES[name]}", ""]
        lines += ["| | " + " | ".join(columns) + " | ratio | |"]
        lines += ["|---" * (len(columns) + 3) + "|"]
        for row in rows:
            times = " | ".join(shown_seconds(row.seconds[c]) for c in columns)
            lines.append(f"| {row.what} | {times} | {shown_ratio(row)} | {row.note} |")
    if sizes:
        lines += ["", "## Growth", "", "| edges | epoch | refresh | memory |", "|---|---|---|---|"]
        for size in sizes:
            shown = (shown_seconds(size.epoch), shown_seconds(size.refresh))
            lines.append(f"| {size.edges:,} | {' | '.join(shown)} | {size.memory / 1e6:,.0f} MB |")
        found = exponents(sizes)
        for name, text in (("all", "exponent"), ("last", "exponent of the last two")):
            if name in found:
                shown_all = " | ".join(f"{found[name][column]:.2f}" for column in MEASURED)
                lines.append(f"| {text} | {shown_all} |")
    return "\n".join(lines) + "\n"


def exponents(sizes: Sequence[Size]) -> dict[str, dict[str, float]]:
    """Of all sizes together, and of the two largest: what is fixed hides growth of the small."""
    parts = {"all": sizes, "last": sizes[-2:]} if len(sizes) > 1 else {}
    return {
        name: {
            column: exponent([s.edges for s in part], [getattr(s, column) for s in part])
            for column in MEASURED
        }
        for name, part in parts.items()
    }


def shown_seconds(seconds: float) -> str:
    """Seconds or milliseconds with three digits."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.2f} ms" if seconds < 0.01 else f"{1e3 * seconds:.1f} ms"


def shown_ratio(row: Row) -> str:
    """The ratio and its range."""
    if math.isnan(row.ratio):
        return "–"
    low, high = row.spread
    digits = 0 if row.ratio >= 100 else 1 if row.ratio >= 10 else 2
    return f"{row.ratio:.{digits}f} × ({low:.{digits}f}–{high:.{digits}f})"


def write(
    folder: Path,
    tables: Mapping[str, Sequence[Row]],
    sizes: Sequence[Size],
    machine: Mapping[str, Any],
) -> list[Path]:
    """Write benchmark.md, benchmark.json and, if it can be drawn, growth.png."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "benchmark.md", folder / "benchmark.json"]
    text = markdown(tables, sizes, machine)
    picture = folder / "growth.png"
    if len(sizes) > 1 and plots_available():
        text += (
            f"\n![Growth of epoch, refresh and memory with the number of edges]({picture.name})\n"
        )
        measured = {c: [getattr(s, c) for s in sizes] for c in MEASURED}
        picture.write_bytes(growth_image([s.edges for s in sizes], measured))
        files.append(picture)
    figures = {
        "environment": dict(machine),
        **{name: [asdict(row) for row in rows] for name, rows in tables.items()},
        "growth": {"sizes": [asdict(size) for size in sizes], "exponents": exponents(sizes)},
    }
    write_whole(files[0], lambda file: print(text, end="", file=file))
    write_whole(files[1], lambda file: json.dump(_finite(figures), file, indent=1))
    return files


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
