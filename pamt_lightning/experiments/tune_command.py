"""`pamt tune`: search for options on the validation seeds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamt_lightning.errors import InputError
from pamt_lightning.experiments.command import FIXED, refuse
from pamt_lightning.experiments.expand import config_file
from pamt_lightning.experiments.runner import Runner, check_jobs
from pamt_lightning.experiments.seeds import split_seeds
from pamt_lightning.experiments.store import Store
from pamt_lightning.experiments.study import Study
from pamt_lightning.experiments.tune import (
    Space,
    Trial,
    Tuner,
    check_seeds,
    read_space,
    write_choice,
    write_trials,
)

_EPILOG = """\
examples:
  pamt tune --config configs/pubmed.yaml --space space.yaml --trials 50
  pamt tune --space configs/spaces/pamt_plus.yaml --trials 40 --seeds val8

space.yaml:
  space:
    model.weight_decay: {low: 0.001, high: 0.1, log: true}
    model.hidden_dim: [64, 128]
  start:                       # optional: choices to try first
    - {model.weight_decay: 0.005, model.hidden_dim: 64}
  datasets: [cora_ml, pubmed]  # optional: one choice for all of these
  conditions:                  # optional: each data set is scored under each of these
    - {}
    - {data.structure_noise: 0.5}

A choice is scored by its mean accuracy on the known nodes that are used neither for training nor
for stopping, over the validation splits; test seeds are refused. Choices that are clearly worse
than the best one on the same splits are given up early. The same command goes on with a search that
was stopped. All other options are those of `pamt fit`.
"""


def run(argv: Sequence[str]) -> int:
    """Run ``pamt tune`` with the arguments that follow it."""
    parser = argparse.ArgumentParser(
        prog="pamt tune",
        description="Search for options on validation splits (Optuna, extra `tune`).",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--space", required=True, metavar="FILE", help="what to search (YAML)")
    parser.add_argument("--trials", type=int, default=50, metavar="N", help="choices to try")
    parser.add_argument(
        "--seeds", default="val5", metavar="LIST", help="validation splits, such as val8"
    )
    parser.add_argument("--inits", type=int, default=1, metavar="M", help="runs of each split")
    parser.add_argument("--jobs", type=int, metavar="J", help="processes; default: all cores")
    parser.add_argument("--threads", type=int, default=1, metavar="T", help="threads of each run")
    parser.add_argument(
        "--folder", metavar="DIR", help="where the search lies; default lightning_logs/tune/SPACE"
    )
    parser.add_argument("--output", metavar="FILE", help="config file to write; default in DIR")
    options, rest = parser.parse_known_args(argv)
    refuse("pamt tune", rest, FIXED)
    if options.trials < 1 or options.inits < 1:
        raise InputError(
            f"`trials` and `inits` must be 1 or more, got {options.trials} and {options.inits}."
        )
    space = read_space(Path(options.space))
    seeds = split_seeds(options.seeds)
    jobs = check_jobs(options.jobs, options.threads)
    folder = Path(options.folder or f"lightning_logs/tune/{Path(options.space).stem}")

    from pamt_lightning.cli import FitParser

    configure = FitParser().configuration
    check_seeds(seeds, published=any(_is_published(configure, space, rest)))
    study = Study(
        name=folder.name,
        title="tuning",
        datasets=space.datasets,
        methods=("tuned",),
        splits=seeds,
        inits=tuple(range(options.inits)),
        reference="tuned",
        split_options=("data.noise_seed",),
    )
    store = Store(folder)
    with Runner(store, jobs, options.threads, quiet=True) as runner:
        tuner = Tuner(space, rest, study, configure, runner, options.threads)
        try:
            trials = tuner.search(folder / "optuna.sqlite3", options.trials)
        except KeyboardInterrupt:
            print("\nInterrupted. The same command goes on.", file=sys.stderr)
            raise SystemExit(130) from None
    return _conclude(trials, folder, options, argv)


def _conclude(trials: list[Trial], folder: Path, options: Any, argv: Sequence[str]) -> int:
    write_trials(folder / "trials.csv", trials)
    best = trials[0]
    if best.state != "complete" or best.score is None:
        print(f"No trial was finished; see {folder / 'trials.csv'}.", file=sys.stderr)
        return 1
    output = Path(options.output) if options.output else folder / "best.yaml"
    counts = {state: sum(t.state == state for t in trials) for state in ("complete", "pruned")}
    source = [
        f"Chosen by: pamt tune {' '.join(argv)}",
        f"Mean accuracy {100 * best.score:.2f} % on the validation splits ({options.seeds}), best "
        f"of {len(trials)} trials ({counts['pruned']} given up early).",
    ]
    write_choice(output, best, source)
    for trial in trials[:10]:
        shown = ", ".join(f"{name} {value}" for name, value in trial.choice.items())
        score = "" if trial.score is None else f"{100 * trial.score:6.2f}"
        print(f"{trial.number:4}  {score}  {trial.state:<8}  {shown}")
    print(f"best choice: {output}\nall trials:  {folder / 'trials.csv'}")
    return 0


def _is_published(configure: Any, space: Space, rest: list[str]) -> list[bool]:
    """For each data set, whether it is split by the published protocol."""
    from pamt_lightning.data.datamodule import GraphDataModule

    found = []
    for dataset in space.datasets or (None,):
        file = [] if dataset is None else ["--config", config_file(dataset)]
        data = configure([*file, *rest])["data"]
        module = GraphDataModule(
            dataset=data.get("dataset"), path=data.get("path"), split=data.get("split")
        )
        found.append(module.split_name == "ppnp")
    return found
