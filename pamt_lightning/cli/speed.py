"""`pamt speed`: measure how fast this machine runs PAMT."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pamt_lightning.cli.arguments import Parser
from pamt_lightning.errors import InputError, did_you_mean, require_in

PARTS = ("epoch", "trainer", "fit", "refresh", "layer", "propagation", "growth")
DATASETS = ("cora_ml", "citeseer", "pubmed", "ms_academic")

_DESCRIPTION = """\
Measure how fast this machine runs PAMT. Both sides of a comparison are measured alternately in one
process, and medians of the ratios are reported: these can be compared between machines, seconds
cannot.

  epoch        an epoch (step, validation with propagated inference, refresh), against one of APPNP
               of PyTorch Geometric on dense attributes with as many hidden units
  trainer      an epoch with stopping in the Trainer of `pamt fit`, against a plain loop
  fit          a training until it stops, against as many epochs of that APPNP
  refresh      mask and propagation, against the dense formula (N × N matrices)
  layer        the sparse first layer, against a copy of the bytes it moves
  propagation  a step on graphs of --max_edges edges, against a copy of the bytes it moves
  growth       epoch, refresh and memory from 10^4 to --max_edges edges, with fitted exponents
"""
_EPILOG = """\
All parts take about a quarter of an hour. PyTorch Geometric comes with the extra `benchmark`.

examples:
  pamt speed                                 all parts
  pamt speed trainer --datasets pubmed --threads 1
"""


def run_speed(args: Sequence[str]) -> int:
    """Run ``pamt speed`` with the arguments that follow it."""
    options = vars(_parser().parse_args(args))
    for name in ("hidden_dim", "epochs", "rounds", "threads", "max_edges"):
        if options[name] is not None:
            low = 10_000 if name == "max_edges" else 1
            require_in(f"[{low}, inf)", **{f"--{name}": options[name]})
    options["datasets"] = options["datasets"].split(",")
    _check("PART", options["parts"], PARTS)
    _check("--datasets", options["datasets"], (*DATASETS, "synthetic"))

    import torch

    from pamt_lightning.benchmarks.measure import Plan, measure
    from pamt_lightning.training.quiet import silence_lightning

    silence_lightning()
    if threads := options.pop("threads"):
        torch.set_num_threads(threads)
    report = measure(Plan(**options | {"parts": options["parts"] or PARTS}), _note)
    print(report.markdown(), end="")
    _note(f"the report is in {options['folder']}")
    return 0


def _parser() -> Parser:
    parser = Parser("pamt speed", description=_DESCRIPTION, epilog=_EPILOG)
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help="what to measure; default all")
    add("--datasets", default=",".join(DATASETS), help="names, with commas (default: %(default)s)")
    add("--root", action="append", default=[], help="folder with data files; may be repeated")
    add("--hidden_dim", type=int, default=64, help="hidden units of both networks (default: 64)")
    add("--epochs", type=int, default=200, help="epochs in a round of `trainer` (default: 200)")
    add("--rounds", type=int, default=7, help="how often each side is measured (default: 7)")
    add("--max_edges", type=int, default=10**7, help="of synthetic graphs (default: 10000000)")
    add("--threads", type=int, help="threads of torch (default: that of torch)")
    add(
        "--folder",
        type=Path,
        default=Path("lightning_logs/speed"),
        help="folder of benchmark.md, benchmark.json and growth.svg (default: %(default)s)",
    )
    return parser


def _check(option: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"{option} must be among {', '.join(known)}, got {name!r}.{hint}")


def _note(text: str) -> None:
    print(f"pamt speed: {text}", file=sys.stderr)
