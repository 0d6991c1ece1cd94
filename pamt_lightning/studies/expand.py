"""From a study to its runs, through the parser of `pamt fit`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pamt_lightning.errors import InputError
from pamt_lightning.methods.registry import find_method
from pamt_lightning.studies.fingerprint import code_version, run_id, what_matters
from pamt_lightning.studies.outcome import TEST_NODES, Cell, Outcome, Value
from pamt_lightning.studies.seeds import split_number
from pamt_lightning.studies.study import Study

Configure = Callable[[list[str]], dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """One `pamt fit` of a study.

    Attributes:
        run_id: Hash of its configuration, data and code.
        cell: What it counts for.
        split_seed: The split.
        init_seed: The initialisation.
        args: What would be typed after `pamt fit`.
        config: Its configuration without the seeds, and the version of its code.
        split_options: Options whose values in ``args`` follow the split and are not in ``config``.
    """

    run_id: str
    cell: Cell
    split_seed: str
    init_seed: int
    args: tuple[str, ...]
    config: Mapping[str, Any]
    split_options: tuple[str, ...] = ()


def expand(study: Study, configure: Configure, threads: int = 1) -> list[Run]:
    """All runs of a study: split by split, so that a study cut short has all its cells alike.

    Args:
        study: The study.
        configure: From the arguments of `pamt fit` to the whole configuration.
        threads: Threads of each run; sums over edges depend on it in the last bits.
    """
    cells = [(cell, cell_args(study, cell)) for cell in study.cells()]
    return expand_cells(cells, study, configure, threads)


def expand_cells(
    cells: Iterable[tuple[Cell, list[str]]], study: Study, configure: Configure, threads: int
) -> list[Run]:
    """The runs of some cells, each with its own arguments, on the splits of the study."""
    by_number = option_args(dict.fromkeys(study.split_options, 0))
    known = []
    for cell, args in cells:
        if by_number:
            configure([*args, *by_number])  # a wrong one is told now, not by every run
        config = configure(args)
        data = config.get("data", {})
        if len(study.splits) > 1 and (data.get("split") == "given" or data.get("split_path")):
            raise InputError(
                f"{cell.method} on {cell.dataset} has a split of its own, which no seed changes: "
                "give one seed, and --inits for more runs."
            )
        known.append((cell, args, _configuration(config, threads)))
    runs = []
    for place, split in enumerate(study.splits):
        by_split = dict.fromkeys(study.split_options, split_number(split, place))
        for init in study.inits:
            seeds = ["--data.split_seed", split, "--seed_everything", str(init)]
            seeds += option_args(by_split)
            for cell, args, config in known:
                key = run_id(config, split, init, by_split)
                typed = (*args, *seeds)
                runs.append(Run(key, cell, split, init, typed, config, study.split_options))
    return runs


def cell_args(study: Study, cell: Cell) -> list[str]:
    """What would be typed after `pamt fit` for a cell, but for the seeds."""
    args = ["--config", config_file(cell.dataset)]
    if find_method(cell.method) is None and cell.method.endswith((".yaml", ".yml")):
        args += ["--config", cell.method]
    else:
        args += ["--model", cell.method]
    args += option_args(study.options)
    return args if cell.option is None else [*args, *option_args({cell.option: cell.value})]


def config_file(dataset: str) -> str:
    """The config file of a data set by name, or the file that is named."""
    return dataset if dataset.endswith((".yaml", ".yml")) else f"configs/{dataset}.yaml"


def option_args(options: Mapping[str, Value]) -> list[str]:
    """Options as they are typed."""
    return [
        word
        for name, value in options.items()
        for word in (f"--{name}", value if isinstance(value, str) else _typed(value))
    ]


def _typed(value: Value) -> str:
    return json.dumps(value).replace("Infinity", ".inf")  # as YAML writes it


def outcomes(runs: Sequence[Run], rows: Mapping[str, Mapping[str, Any]]) -> list[Outcome]:
    """What is known of the runs of a study so far."""
    return [
        Outcome(
            row.get("id", run.run_id),
            run.cell,
            run.split_seed,
            run.init_seed,
            row.get("metrics", {}),
            row.get("error"),
            row.get("tested_on", TEST_NODES),
            row.get("inference"),
            row.get("other_code", False),
        )
        for run in runs
        if (row := rows.get(run.run_id)) is not None
    ]


def _configuration(config: dict[str, Any], threads: int) -> dict[str, Any]:
    kept = what_matters(config)
    return {**kept, "code": code_version(kept["model"]["class_path"]), "threads": threads}
