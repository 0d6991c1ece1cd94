"""What a study is: data sets × methods × points × splits × initialisations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pamt_lightning.experiments.outcome import Cell, Value


@dataclass(frozen=True)
class Sweep:
    """One option that is varied while all others stay as configured.

    Attributes:
        option: Its name, such as ``model.alpha``.
        values: The values it takes.
        symbol: How it is written in tables and on axes, such as ``α``.
    """

    option: str
    values: tuple[Value, ...]
    symbol: str = ""


@dataclass(frozen=True)
class Study:
    """A study, as its YAML file says.

    Attributes:
        name: Short name; names its folder.
        title: Heading of tables and reports.
        description: What it is for, in a few sentences.
        datasets: Data sets by name (`configs/NAME.yaml`), or config files.
        methods: Methods by name (`pamt methods`), or config files laid over the data set's.
        splits: Split seeds, by the names of published ones or numbers.
        inits: Seeds of initialisation.
        sweeps: Options to vary, one at a time; none gives one table.
        reference: The method that all others are compared with.
        options: Options that all runs share, such as ``{"trainer.max_epochs": 500}``.
        split_options: Options that take the number of the split (0, 1, ...) as their value, such as
            ``data.noise_seed``.
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    splits: tuple[str, ...]
    inits: tuple[int, ...] = (0,)
    description: str = ""
    sweeps: tuple[Sweep, ...] = ()
    reference: str = "PAMT"
    options: Mapping[str, Value] = field(default_factory=dict)
    split_options: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        """All cells of the study, in the order of its file."""
        points: list[tuple[str | None, Value]] = [
            (sweep.option, value) for sweep in self.sweeps for value in sweep.values
        ] or [(None, None)]
        return [
            Cell(dataset, method, option, value)
            for option, value in points
            for dataset in self.datasets
            for method in self.methods
        ]
