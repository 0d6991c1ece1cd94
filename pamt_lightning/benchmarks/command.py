"""`pamt benchmark`: measure, print and write."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from pamt_lightning.benchmarks.clock import Row
from pamt_lightning.benchmarks.epochs import Options, appnp_row, pyg_available, trainer_row
from pamt_lightning.benchmarks.full_fit import full_fit_row
from pamt_lightning.benchmarks.growth import Size, growth
from pamt_lightning.benchmarks.kernels import first_layer_row, propagation_rows, refresh_row
from pamt_lightning.benchmarks.report import markdown, shown_ratio, write
from pamt_lightning.cli.config_layers import read_content
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.errors import InputError
from pamt_lightning.training.estimate import available_memory
from pamt_lightning.training.quiet import silence
from pamt_lightning.training.results import environment

PARTS = ("epoch", "trainer", "fit", "refresh", "layer", "propagation", "growth")
DATASETS = ("cora_ml", "citeseer", "pubmed", "ms_academic")

_DESCRIPTION = """\
Measure how fast this machine runs PAMT, in ratios: what is compared takes turns in one process, and
medians over the rounds are shown. Ratios can be compared between machines, seconds cannot.

  epoch        step with the configuration's dropout, validation with propagated inference and
               refresh, beside APPNP of PyTorch Geometric on dense attributes, the same size
  trainer      that epoch and stopping inside `pamt fit`'s Trainer beside a plain loop
  fit          a whole training until it stops beside as many epochs of that APPNP
  refresh      mask and ten steps of propagation beside the dense formula (N × N matrices)
  layer        the sparse first layer beside the time its bytes take at the rate of a copy
  propagation  a step on graphs of --max_edges edges beside the time its bytes take
  growth       epoch, refresh and memory from 10^4 to --max_edges edges, with fitted exponents

Without names all parts are measured, in about a quarter of an hour. PyTorch Geometric comes with
the extra `benchmark`.
"""


def run(argv: list[str]) -> int:
    """Measure what is asked for."""
    args = _parser().parse_args(argv)
    _check(args)
    silence()
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    parts = args.parts or list(PARTS)
    machine = {**environment(), "processor": platform.processor() or platform.machine()}
    tables: dict[str, list[Row]] = {part: [] for part in PARTS if part in parts}
    tables.pop("growth", None)
    if not pyg_available() and {"epoch", "fit"} & set(parts):
        _note("no APPNP to compare with: pip install 'pamt-lightning[benchmark]'.")
        tables.pop("epoch", None)
        if not tables and "growth" not in parts:
            return 1
    sizes: list[Size] = []

    def keep(part: str, row: Row) -> None:
        """Nothing that was measured is lost if the command is stopped."""
        tables[part].append(row)
        low, high = row.spread
        busy = "; far apart: is the machine busy with other work?" if high > 3 * low else ""
        _note(f"{part}, {row.what}: {shown_ratio(row)}{busy}")
        write(args.folder, tables, sizes, machine)

    for name in args.datasets:
        for part, row in _rows(name, [part for part in tables if part != "propagation"], args):
            keep(part, row)
    if "propagation" in tables:
        for row in propagation_rows(max(1, args.max_edges // 10), 20, 16, args.rounds):
            keep("propagation", row)
    if "growth" in parts:
        edges = [10**power for power in range(4, 12) if 10**power <= args.max_edges]
        sizes += growth(edges, min(3, args.rounds))
    files = write(args.folder, tables, sizes, machine)
    print(markdown(tables, sizes, machine), end="")
    _note(f"written to {', '.join(map(str, files))}")
    return 0


def _rows(name: str, parts: Sequence[str], args: argparse.Namespace) -> Iterator[tuple[str, Row]]:
    """The rows of one data set; none, with a note, if it is not on this machine."""
    if not parts:
        return
    data = GraphDataModule(dataset=name, root=args.root)
    try:
        data.setup("fit")
    except InputError as error:
        _note(f"{name} is left out: {error}")
        return
    config = configured(name)
    options: Options = {**config["model"]["init_args"], "hidden_dim": args.hidden_dim}
    patience = config["stopping"]["patience"]
    measures: dict[str, Callable[[], Row]] = {
        "epoch": lambda: appnp_row(data, options, args.rounds),
        "trainer": lambda: trainer_row(data, options, args.epochs, args.rounds),
        "fit": lambda: full_fit_row(data, options, patience),
        "refresh": lambda: refresh_row(data, options, min(3, args.rounds)),
        "layer": lambda: first_layer_row(data, args.hidden_dim, 4 * args.rounds),
    }
    for part in parts:
        needed = 3.5 * 4 * data.graph.num_nodes**2
        free = available_memory()
        if part == "refresh" and free is not None and free < needed:
            _note(f"{name}: the dense formula needs {needed / 1e9:.0f} GB of memory; left out.")
            continue
        if part == "layer" and data.graph.x.layout != torch.sparse_csr:
            continue
        yield part, measures[part]()


def configured(name: str) -> dict[str, Any]:
    """The configuration of PAMT on a data set that comes with the program."""
    content, _ = read_content(f"configs/{name}.yaml")
    return content


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "pamt benchmark",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help="what to measure; default all")
    add("--datasets", default=",".join(DATASETS), help="names, with commas (default: %(default)s)")
    add("--root", action="append", default=[], help="folder with data files")
    add("--hidden_dim", type=int, default=64, help="of both networks (default: 64)")
    add("--epochs", type=int, default=200, help="of a round of `trainer` (default: 200)")
    add("--rounds", type=int, default=7, help="how often each is measured (default: 7)")
    add("--max_edges", type=int, default=10**7, help="of synthetic graphs (default: 10000000)")
    add("--threads", type=int, help="threads of torch (default: as many as torch takes)")
    add(
        "--folder",
        type=Path,
        default=Path("lightning_logs/benchmark"),
        help="where benchmark.md, benchmark.json and growth.png go (default: %(default)s)",
    )
    return parser


def _check(args: argparse.Namespace) -> None:
    for name in ("hidden_dim", "epochs", "rounds", "threads"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise InputError(f"--{name} must be 1 or more, got {value}.")
    if args.max_edges < 10**4:
        raise InputError(f"--max_edges must be 10000 or more, got {args.max_edges}.")
    unknown = [part for part in args.parts if part not in PARTS]
    if unknown:
        raise InputError(f"PART must be among {', '.join(PARTS)}, got {unknown[0]!r}.")
    args.datasets = [name for name in args.datasets.split(",") if name]
    unknown = [name for name in args.datasets if name not in (*DATASETS, "synthetic")]
    if unknown:
        known = ", ".join((*DATASETS, "synthetic"))
        raise InputError(f"--datasets must be among {known}, got {unknown[0]!r}.")


def _note(text: str) -> None:
    print(f"pamt benchmark: {text}", file=sys.stderr)
