"""All measurements of `pamt speed`, and their report as Markdown, JSON and a figure."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pamt_lightning.benchmarks.epochs import Case, appnp_row, fit_row, trainer_row
from pamt_lightning.benchmarks.growth import Size, growth
from pamt_lightning.benchmarks.kernels import first_layer_row, propagation_rows, refresh_row
from pamt_lightning.benchmarks.timing import Row
from pamt_lightning.errors import InputError
from pamt_lightning.files import write_whole
from pamt_lightning.plots import growth_image, plots_available
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.memory import available_memory
from pamt_lightning.training.results import environment, write_results

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
_NOISY = 3.0  # ratio of the largest to the smallest ratio of a comparison


@dataclass(frozen=True)
class Plan:
    """The options of `pamt speed`; its help explains them."""

    parts: Sequence[str]
    datasets: Sequence[str]
    root: list[str]
    hidden_dim: int
    epochs: int
    rounds: int
    max_edges: int
    folder: Path

    def config_of(self, dataset: str) -> RunConfig:
        """The run that is measured on a data set: PAMT with its shipped values."""
        sizes = {"hidden_dim": self.hidden_dim}
        return RunConfig.create(dataset=dataset, data={"root": self.root}, model=sizes)


@dataclass
class Report:
    """All measurements of a command."""

    machine: Mapping[str, Any]  # versions and facts about the machine
    tables: dict[str, list[Row]] = field(default_factory=dict)  # comparisons by part
    sizes: list[Size] = field(default_factory=list)  # measurements of the part ``growth``

    def markdown(self, figure: str | None = None) -> str:
        """All measurements as Markdown tables; ``figure`` is the file name of the figure."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        lines = ["# Speed", "", _ABOUT, "", f"{machine}."]
        for part, rows in self.tables.items():
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


def measure(plan: Plan, note: Callable[[str], None]) -> Report:
    """Measure, and write the report after each measurement, so that an interrupt loses nothing.

    ``note`` receives one line for each result, and for what is left out.
    """
    report = Report({**environment(), "processor": platform.processor() or platform.machine()})
    report.write(plan.folder)  # a folder that cannot be written is reported at once
    for part, result in _results(plan, note):
        if isinstance(result, Size):
            report.sizes.append(result)
            note(f"{part}: {result.edges:,} edges measured.")
        else:
            report.tables.setdefault(part, []).append(result)
            low, high = result.spread
            warning = "; the rounds differ: is the machine busy?" if high > _NOISY * low else ""
            note(f"{part}, {result.what}: {_shown_ratio(result)}{warning}")
        report.write(plan.folder)
    return report


def _results(plan: Plan, note: Callable[[str], None]) -> Iterator[tuple[str, Row | Size]]:
    on_a_dataset: dict[str, Callable[[Case], Row]] = {
        "epoch": partial(appnp_row, rounds=plan.rounds),
        "trainer": partial(trainer_row, epochs=plan.epochs, rounds=plan.rounds),
        "fit": fit_row,
        "refresh": partial(refresh_row, rounds=min(3, plan.rounds)),
        "layer": partial(first_layer_row, rounds=4 * plan.rounds),
    }
    chosen = [part for part in plan.parts if part in on_a_dataset]
    for name in plan.datasets if chosen else ():
        try:
            case = Case(plan.config_of(name))
        except InputError as error:
            note(f"{name} is left out: {error}")
            continue
        for part in chosen:
            if reason := _obstacle(part, case):
                note(f"{part}, {name} is left out: {reason}.")
            else:
                yield part, on_a_dataset[part](case)
    if "propagation" in plan.parts:
        yield from (("propagation", row) for row in propagation_rows(plan.max_edges, plan.rounds))
    if "growth" in plan.parts:
        yield from (("growth", size) for size in growth(plan.max_edges, min(3, plan.rounds)))


def _obstacle(part: str, case: Case) -> str | None:
    """Why a part cannot be measured on a data set, if it cannot."""
    graph = case.data.graph
    if part in ("epoch", "fit") and find_spec("torch_geometric") is None:
        return "it needs pip install 'pamt-lightning[benchmark]'"
    if part == "layer" and graph.x.layout != torch.sparse_csr:
        return "its attributes are dense"
    needed, free = 3.5 * 4 * graph.num_nodes**2, available_memory()
    if part == "refresh" and free is not None and free < needed:
        return f"the dense formula needs {needed / 1e9:.0f} GB of memory"
    return None


def shown_seconds(seconds: float) -> str:
    """Seconds or milliseconds with about three digits."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.2f} ms" if seconds < 0.01 else f"{1e3 * seconds:.1f} ms"


def _shown_ratio(row: Row) -> str:
    low, high = row.spread
    digits = 0 if row.ratio >= 100 else 1 if row.ratio >= 10 else 2
    return f"{row.ratio:.{digits}f} × ({low:.{digits}f}–{high:.{digits}f})"


def _cells(row: Row) -> list[str]:
    return [row.what, *map(shown_seconds, row.seconds.values()), _shown_ratio(row), row.note]


def _table(header: list[str], rows: Iterable[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]
