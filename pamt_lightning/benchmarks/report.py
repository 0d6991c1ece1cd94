"""The measurements as Markdown, JSON and a figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pamt_lightning.benchmarks.growth import Size
from pamt_lightning.benchmarks.timing import Row
from pamt_lightning.files import write_whole
from pamt_lightning.plots import growth_image, plots_available
from pamt_lightning.training.results import write_results

TITLES = {
    "epoch": "An epoch, and one of APPNP of PyTorch Geometric on dense attributes",
    "trainer": "An epoch in a plain loop and under the Trainer",
    "fit": "A training until it stops, and as many epochs of APPNP",
    "refresh": "A refresh, and the dense formula",
    "layer": "The first layer, and a copy of its bytes",
    "propagation": "A step of propagation, and a copy of its bytes",
}
MEASURED = ("epoch", "refresh", "memory")
_ABOUT = (
    "Written by `pamt speed`. Both sides of a comparison are measured alternately in one process; "
    "ratios are medians over the rounds, with the smallest and the largest in brackets. "
    "Ratios can be compared between machines, seconds cannot."
)


@dataclass
class Report:
    """All measurements of a command.

    Attributes:
        machine: Versions and facts about the machine.
        tables: Comparisons by part.
        sizes: Measurements of the part ``growth``.
    """

    machine: Mapping[str, Any]
    tables: dict[str, list[Row]]
    sizes: list[Size] = field(default_factory=list)

    def markdown(self, figure: str | None = None) -> str:
        """All measurements as Markdown tables; ``figure`` is the file name of the figure."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        lines = ["# Speed", "", _ABOUT, "", f"{machine}."]
        for part, rows in self.tables.items():
            if rows:
                lines += ["", f"## {TITLES[part]}", ""]
                lines += _table(["", *rows[0].seconds, "ratio", ""], map(_cells, rows))
        if self.sizes:
            lines += ["", "## Growth", "", *_table(["edges", *MEASURED], self._growth_cells())]
        if figure is not None:
            lines += ["", f"![Time and memory against the number of edges]({figure})"]
        return "\n".join(lines) + "\n"

    def _growth_cells(self) -> Iterator[list[str]]:
        for size in self.sizes:
            times = map(shown_seconds, (size.epoch, size.refresh))
            yield [f"{size.edges:,}", *times, f"{size.memory / 1e6:,.0f} MB"]
        names = {"all": "exponent", "last": "exponent of the last two"}
        for name, found in self.exponents().items():
            yield [names[name], *(f"{found[column]:.2f}" for column in MEASURED)]

    def exponents(self) -> dict[str, dict[str, float]]:
        """The b of values ≈ a · edges^b, for all sizes and for the two largest."""
        found: dict[str, dict[str, float]] = {}
        for name, part in {"all": self.sizes, "last": self.sizes[-2:]}.items():
            if len(part) > 1:
                edges = np.log([size.edges for size in part])
                values = {each: np.log([getattr(size, each) for size in part]) for each in MEASURED}
                found[name] = {k: float(np.polyfit(edges, v, 1)[0]) for k, v in values.items()}
        return found

    def write(self, folder: Path) -> None:
        """Write benchmark.md, benchmark.json and, with matplotlib, growth.svg."""
        figure = "growth.svg" if len(self.sizes) > 1 and plots_available() else None
        if figure is not None:
            measured = {name: [getattr(s, name) for s in self.sizes] for name in MEASURED}
            image = growth_image([s.edges for s in self.sizes], measured)
            write_whole(folder / figure, lambda file: file.write(image))
        write_whole(folder / "benchmark.md", lambda file: file.write(self.markdown(figure)))
        content = {
            "environment": self.machine,
            **{part: [asdict(row) for row in rows] for part, rows in self.tables.items()},
            "growth": {"sizes": [asdict(s) for s in self.sizes], "exponents": self.exponents()},
        }
        write_results(folder / "benchmark.json", content)


def shown_seconds(seconds: float) -> str:
    """Seconds or milliseconds with about three digits."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.2f} ms" if seconds < 0.01 else f"{1e3 * seconds:.1f} ms"


def shown_ratio(row: Row) -> str:
    """The ratio and its range."""
    low, high = row.spread
    digits = 0 if row.ratio >= 100 else 1 if row.ratio >= 10 else 2
    return f"{row.ratio:.{digits}f} × ({low:.{digits}f}–{high:.{digits}f})"


def _cells(row: Row) -> list[str]:
    return [row.what, *map(shown_seconds, row.seconds.values()), shown_ratio(row), row.note]


def _table(header: list[str], rows: Iterable[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]
