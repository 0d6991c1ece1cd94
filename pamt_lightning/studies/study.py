"""What a study is: data sets × methods × points × splits × initialisations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pamt_lightning.studies.outcome import Cell, Value


@dataclass(frozen=True)
class Sweep:
    """One option that is varied while all others stay as configured.

    Attributes:
        option: Its name, such as ``model.alpha``.
        values: The values it takes.
        symbol: How it is written in tables and on axes, such as ``α``.
        reference: In a study of one method, the value that all others are compared with, for all
            data sets or for each by name.
    """

    option: str
    values: tuple[Value, ...]
    symbol: str = ""
    reference: Value | Mapping[str, Value] = None

    def reference_for(self, dataset: str) -> Value:
        """The value that all others are compared with on a data set; none if there is none."""
        if isinstance(self.reference, Mapping):
            return self.reference.get(dataset)
        return self.reference


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
        split_options: Options that take the number of the split as their value (7 for ``test7``,
            its place in the list for a seed without a name), such as
            ``data.noise_seed``.
        further_references: Methods that all others are compared with in tables of their own.
        source: The file it is from, if any.
        narrowed: The options that were typed in place of what the file says.
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
    further_references: tuple[str, ...] = ()
    source: str = ""
    narrowed: str = ""

    def reference_of(self, cell: Cell) -> Cell:
        """What a cell is compared with; itself if it is a reference."""
        if len(self.methods) > 1:
            return cell._replace(method=self.reference)
        for sweep in self.sweeps:
            if sweep.option == cell.option and sweep.reference_for(cell.dataset) is not None:
                return cell._replace(value=sweep.reference_for(cell.dataset))
        return cell

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
