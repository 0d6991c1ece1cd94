"""All measurements of `pamt speed`, one after the other."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch

from pamt_lightning.benchmarks.epochs import Case, appnp_row, fit_row, trainer_row
from pamt_lightning.benchmarks.growth import Size, growth
from pamt_lightning.benchmarks.kernels import first_layer_row, propagation_rows, refresh_row
from pamt_lightning.benchmarks.report import Report, shown_ratio
from pamt_lightning.benchmarks.timing import Row
from pamt_lightning.errors import InputError
from pamt_lightning.training.config import RunConfig
from pamt_lightning.training.memory import available_memory
from pamt_lightning.training.results import environment

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


def pyg_available() -> bool:
    """Whether PyTorch Geometric is installed (the extra `benchmark`)."""
    return find_spec("torch_geometric") is not None


def measure(plan: Plan, note: Callable[[str], None]) -> Report:
    """Measure, and write the report after each measurement, so that an interrupt loses nothing.

    Args:
        plan: What to measure.
        note: Receives one line for each result, and for what is left out.
    """
    missing = [part for part in plan.parts if part in ("epoch", "fit") and not pyg_available()]
    parts = [part for part in plan.parts if part not in missing]
    if missing:
        note(f"{', '.join(missing)} left out: needs pip install 'pamt-lightning[benchmark]'.")
    machine = {**environment(), "processor": platform.processor() or platform.machine()}
    report = Report(machine, {part: [] for part in parts if part != "growth"})
    report.write(plan.folder)  # a folder that cannot be written is reported at once
    for part, result in _results(plan, parts, note):
        if isinstance(result, Size):
            report.sizes.append(result)
            note(f"{part}: {result.edges:,} edges measured.")
        else:
            report.tables[part].append(result)
            low, high = result.spread
            warning = "; the rounds differ: is the machine busy?" if high > _NOISY * low else ""
            note(f"{part}, {result.what}: {shown_ratio(result)}{warning}")
        report.write(plan.folder)
    return report


def _results(
    plan: Plan, parts: Sequence[str], note: Callable[[str], None]
) -> Iterator[tuple[str, Row | Size]]:
    on_a_dataset: dict[str, Callable[[Case], Row]] = {
        "epoch": partial(appnp_row, rounds=plan.rounds),
        "trainer": partial(trainer_row, epochs=plan.epochs, rounds=plan.rounds),
        "fit": fit_row,
        "refresh": partial(refresh_row, rounds=min(3, plan.rounds)),
        "layer": partial(first_layer_row, rounds=4 * plan.rounds),
    }
    chosen = [part for part in parts if part in on_a_dataset]
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
    if "propagation" in parts:
        for row in propagation_rows(plan.max_edges, plan.rounds):
            yield "propagation", row
    if "growth" in parts:
        for size in growth(plan.max_edges, min(3, plan.rounds)):
            yield "growth", size


def _obstacle(part: str, case: Case) -> str | None:
    """Why a part cannot be measured on a data set, if it cannot."""
    graph = case.data.graph
    if part == "layer" and graph.x.layout != torch.sparse_csr:
        return "its attributes are dense"
    needed, free = 3.5 * 4 * graph.num_nodes**2, available_memory()
    if part == "refresh" and free is not None and free < needed:
        return f"the dense formula needs {needed / 1e9:.0f} GB of memory"
    return None
