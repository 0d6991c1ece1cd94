"""The runs of a study: their configurations, their identity, and how one is computed.

A run is identified by what its results depend on: the configuration, the content of the data, the
seeds and the number of threads (together ``config_id``), and the results version of the method.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pamt_lightning.data.published.registry import DEFAULT_DATASET, get_spec
from pamt_lightning.data.raw import sha256_of
from pamt_lightning.data.splits import resolve_split_seed
from pamt_lightning.errors import InputError
from pamt_lightning.methods.registry import METHODS, find_method, method_of_class
from pamt_lightning.studies.seeds import split_number
from pamt_lightning.studies.study import TEST_NODES, Cell, Outcome, Study
from pamt_lightning.training.config import (
    NO_EFFECT,
    OLD_TRAIN,
    SINCE_RESULTS,
    RunConfig,
    import_class,
)
from pamt_lightning.training.layers import dataset_file

Options = Mapping[str, Any]
Configure = Callable[[Sequence[str], str | None, Options], RunConfig]


@dataclass(frozen=True)
class Run:
    """One training of a study.

    ``config_id`` is a hash of its configuration, data, seeds and threads (on which the last bits of
    sums over edges depend); ``run_id`` of that and the method's results version.
    """

    run_id: str
    config_id: str
    cell: Cell
    split_seed: str
    init_seed: int
    config: RunConfig
    threads: int = 1

    def describe(self) -> dict[str, Any]:
        """The run as plain values: the first part of its row in the results."""
        return {
            "id": self.run_id,
            "config_id": self.config_id,
            **self.cell._asdict(),
            "split_seed": self.split_seed,
            "init_seed": self.init_seed,
            "threads": self.threads,
            "config": self.config.to_dict(),
        }


def expand(study: Study, configure: Configure, threads: int = 1) -> list[Run]:
    """All runs of a study, split by split: an unfinished study has the same splits in all cells.

    ``configure`` makes a configuration from config files, a method and options.
    """

    def configure_cell(cell: Cell, more: Options) -> RunConfig:
        file, method = dataset_file(cell.dataset), cell.method
        swept = {} if cell.option is None else {cell.option: cell.value}
        options = {**study.options, **swept, **more}
        if find_method(method) is None:  # a config file
            return configure([file, method], None, options)
        return configure([file], method, options)

    return expand_cells(study, study.cells(), configure_cell, threads)


def expand_cells(
    study: Study,
    cells: Iterable[Cell],
    configure_cell: Callable[[Cell, Options], RunConfig],
    threads: int = 1,
) -> list[Run]:
    """The runs of some cells on the splits and initialisations of a study."""
    known = []
    for cell in cells:
        # The values of split options are set below; here their names are checked.
        config = configure_cell(cell, dict.fromkeys(study.split_options, 0))
        has_own_split = config.data.get("split") == "given" or config.data.get("split_path")
        if len(study.splits) > 1 and has_own_split:
            raise InputError(
                f"{cell.method} on {cell.dataset} has a split of its own, which no seed changes: "
                "give one seed, and --inits for more runs."
            )
        # All runs are tested, whatever a config file says.
        known.append((cell, replace(config, test=True), data_hash(config), results_version(config)))
    runs = []
    for place, split in enumerate(study.splits):
        number = split_number(split, place)
        for init in study.inits:
            options = {
                "data.split_seed": int(split) if split.isdigit() else split,
                "seed_everything": init,
                **dict.fromkeys(study.split_options, number),
            }
            for cell, base, data, version in known:
                config = base.with_options(options)
                key = config_id(config, data, threads)
                runs.append(Run(digest([key, version]), key, cell, split, init, config, threads))
    return runs


def outcomes(runs: Sequence[Run], rows: Mapping[str, Mapping[str, Any]]) -> list[Outcome]:
    """The outcomes of those runs that have a row of results."""
    return [
        Outcome(
            str(row.get("id", run.run_id)),
            run.cell,
            run.split_seed,
            run.init_seed,
            row.get("metrics", {}),
            row.get("error"),
            row.get("tested_on", TEST_NODES),
            chosen=row.get("inference"),
            views=row.get("views", {}),
            other_version=bool(row.get("other_version", False)),
        )
        for run in runs
        if (row := rows.get(run.run_id)) is not None
    ]


def digest(content: object) -> str:
    """Short hash of plain values; the order of keys does not matter."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def result_affecting(config: RunConfig) -> dict[str, Any]:
    """The part of a configuration that results depend on, apart from the content of files."""
    sections = {name: dict(getattr(config, name)) for name in ("data", "stopping", "trainer")}
    sections["model"] = dict(config.model.get("init_args", {}))
    for section, values in sections.items():
        for name in NO_EFFECT[section]:
            values.pop(name, None)
    data = sections["data"] = {
        name: value
        for name, value in sections["data"].items()
        if name not in SINCE_RESULTS or value != SINCE_RESULTS[name]
    }
    if data.get("train") is None:
        data["train"] = OLD_TRAIN
    data.pop("split_path", None)
    if data.pop("path", None) is None:
        data["dataset"] = get_spec(data.get("dataset") or DEFAULT_DATASET).name
    data["split_seed"] = resolve_split_seed(data.get("split_seed", "test0"))
    return {**sections, "class_path": config.model["class_path"], "seed": config.seed}


def config_id(config: RunConfig, data: str, threads: int) -> str:
    """Identifies a configuration; ``data`` is its `data_hash`."""
    return digest([result_affecting(config), data, threads])


def data_hash(config: RunConfig) -> str:
    """Hash of the data: published hashes, which need no reading, or the content of own files."""
    path, split_path = config.data.get("path"), config.data.get("split_path")
    if path is None:
        variants = get_spec(config.data.get("dataset") or DEFAULT_DATASET).variants
        graph: object = [[file.sha256 for file in variant.files] for variant in variants]
    else:
        graph = _content_hash(Path(path).expanduser())
    return digest([graph, split_path and _content_hash(Path(split_path).expanduser())])


def _content_hash(path: Path) -> list[list[str]]:
    """Names and hashes of a file or of all files directly in a folder."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    if not files or not all(file.is_file() for file in files):
        raise InputError(f"there is no file or folder {path}.")
    return [[str(file.relative_to(path)), sha256_of(file)] for file in files]


def results_version(config: RunConfig) -> object:
    """The results version of a method; for a class from outside the package, a hash of its source.

    Such a class may use anything of the package, so all results versions count for it too.
    """
    class_path = str(config.model["class_path"])
    by_class, by_name = method_of_class(class_path), find_method(config.method)
    if by_class is not None:  # several methods may share a class
        is_named = by_name is not None and by_name.class_path == by_class.class_path
        return (by_name if by_name and is_named else by_class).results_version
    versions = [[method.name, method.results_version] for method in METHODS]
    return [_source_hash(class_path), versions]


def _source_hash(class_path: str) -> str:
    """Hash of the module that defines a class, and of modules beside it that it imports."""
    try:
        file = inspect.getsourcefile(import_class(class_path))
    except (OSError, TypeError):
        file = None
    if file is None:
        raise InputError(f"the source of {class_path} cannot be read: define it in a .py file.")
    waiting, found = [Path(file)], dict[str, str]()
    while waiting:
        path = waiting.pop()
        if path.name in found or not path.is_file():
            continue
        found[path.name] = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(found[path.name])):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names]
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                waiting += [path.with_name(f"{name.rpartition('.')[2]}.py") for name in names]
    return digest(found)


def prepare() -> None:
    """Import what runs need; the first thing that a worker process does."""
    import pamt_lightning.studies.edges
    import pamt_lightning.training.run  # noqa: F401

    # The lock that progress bars make by default is a semaphore of the system, which a worker that
    # is killed would leave behind.
    tqdm.set_lock(threading.RLock())


def compute(row: Mapping[str, Any]) -> dict[str, Any]:
    """Train and test the run that `Run.describe` describes.

    Returns results to be added to the row, or why they do not belong to it (``outdated``).
    """
    from pamt_lightning.studies.edges import bad_edge_metrics
    from pamt_lightning.training.run import run

    started, clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    config = RunConfig.from_dict(row["config"])
    result = run(config, quiet=True)
    record = result.record
    key = config_id(config, data_hash(config), row["threads"])
    if digest([key, results_version(config)]) != row["id"]:
        return {"outdated": "the data or the source of the model changed since the command started"}
    names = ("val_acc", "val_loss", "epochs", "best_epoch", "seconds", "structure_noise")
    figures = {name: record[name] for name in names} | record["test_metrics"]
    figures |= bad_edge_metrics(result.model, result.datamodule)
    own: dict[str, Any] = {"inference": record["inference"]} if "inference" in record else {}
    if "views" in record:
        own["views"] = {name: view["weight"] for name, view in record["views"].items()}
    return {
        "metrics": {k: float(v) for k, v in figures.items() if v is not None and math.isfinite(v)},
        **own,
        **{name: record[name] for name in ("tested_on", "data_hashes", "environment")},
        "started": started,
        "wall_seconds": round(time.monotonic() - clock, 3),
    }
