"""`pamt tune`: search for options on validation splits."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pamt_lightning.cli.arguments import Parser
from pamt_lightning.cli.choices import Choices
from pamt_lightning.cli.study import (
    FIXED,
    add_run_options,
    fit_options,
    local_runner,
    refuse,
    typed_names,
)
from pamt_lightning.errors import InputError, error_context, require_in
from pamt_lightning.studies.results import Results
from pamt_lightning.studies.runner import check_jobs
from pamt_lightning.studies.seeds import split_seeds
from pamt_lightning.studies.space import Space, read_space, require_optuna
from pamt_lightning.studies.study import Study, init_seeds
from pamt_lightning.studies.tune import (
    Tuner,
    best_config,
    check_seeds,
    shown,
    verdict,
    write_choice,
    write_trials,
)

if TYPE_CHECKING:
    from pamt_lightning.cli.configure import FitOptions

_EPILOG = """\
examples:
  pamt tune --config configs/pubmed.yaml --space space.yaml --trials 50
  pamt tune --space configs/spaces/pamt.yaml --trials 40 --seeds val8

space.yaml:
  space:
    model.weight_decay: {low: 0.001, high: 0.1, log: true}
    model.hidden_dim: [64, 128]
  start:                       # optional: choices to try first
    - {model.weight_decay: 0.005, model.hidden_dim: 64}
  datasets: [cora_ml, pubmed]  # optional: one choice for all of these; then give no data
  conditions:                  # optional: each data set is scored under each of these
    - {}
    - {data.structure_noise: 0.5}

A choice is scored by its mean accuracy on held-out nodes, which are used neither for training nor
for early stopping, over the validation splits; test seeds are refused. Choices that are clearly
worse than the best one on the same splits are stopped early. The same command resumes a search that
was stopped, and repeats an interrupted trial. The best choice is compared with the first one on the
same splits; that needs at least six. All other options are those of `pamt fit`.
"""
_NOT_TYPED = {**FIXED, "data.noise_seed": "it follows the split"}
_SPLIT = ("split", "split_path", "train", "val", "test", "num_known")
_NODES = "all choices are trained and scored on the same nodes"
_METHOD = "a search is for one method, which --model or --config names"
_NOT_SEARCHED = {
    **_NOT_TYPED,
    **dict.fromkeys(("data", "data.dataset", "data.path"), "that is what `datasets` is for"),
    **dict.fromkeys((f"data.{name}" for name in _SPLIT), _NODES),
    **dict.fromkeys(("model", "model.class_path", "config"), _METHOD),
}


def run_tune(argv: Sequence[str]) -> int:
    """Run ``pamt tune`` with the arguments that follow it."""
    options, rest = _parser().parse_known_args(argv)
    require_in("[1, inf)", whole=True, trials=options.trials)
    require_optuna()
    space = read_space(options.space)
    _check_names(options.space, space, rest)
    folder = Path(options.folder or f"lightning_logs/tune/{Path(options.space).stem}")
    study = Study(
        name=folder.name,
        title="tuning",
        datasets=space.datasets,
        methods=("tuned",),
        splits=split_seeds(options.seeds),
        inits=init_seeds(options.inits),
        split_options=("data.noise_seed",),
    )
    jobs = check_jobs(options.jobs, options.threads)
    typed = fit_options("tune", rest)
    _check_splits(typed, space, study.splits)
    # A wrong option or value is reported now, before anything is stored.
    with error_context(options.space):
        for choice in space.samples():
            space.runs(typed.configure, choice, study)
    with local_runner(Results(folder), jobs, options.threads, quiet=True) as runner:
        tuner = Tuner(space, typed.configure, study, runner, options.threads, options.retry)
        try:
            trials = tuner.search(options.trials)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted. The same command resumes.") from None
    write_trials(folder / "trials.csv", trials)
    if trials[0].state != "complete":
        print(f"No trial was finished; see {folder / 'trials.csv'}.", file=sys.stderr)
        return 1
    worth = verdict(trials[0], tuner.first_choice(trials))
    pruned = sum(trial.state == "pruned" for trial in trials)
    comments = [
        f"Chosen by: {shlex.join(['pamt', 'tune', *argv])}",
        f"Mean accuracy {100 * (trials[0].score or 0):.2f} % on the {tuner.scored_on()} of the "
        f"splits {', '.join(study.splits)}; best of {len(trials)} trials ({pruned} stopped early).",
        *worth,
    ]
    output = Path(options.output or folder / "best.yaml")
    content = best_config(space, typed.configure, trials[0].choice, typed_names(rest))
    write_choice(output, content, comments)
    for trial in trials[:10]:
        score = "" if trial.score is None else f"{100 * trial.score:.2f}"
        print(f"{trial.number:4}  {score:>6}  {trial.state:<8}  {shown(trial.choice)}")
    print(f"Scored by the mean accuracy on the {tuner.scored_on()}.", *worth, sep="\n")
    print(f"best choice: {output}\nall trials:  {folder / 'trials.csv'}")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="pamt tune",
        description="Search for options on validation splits (Optuna, extra `tune`).",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("--space", required=True, metavar="FILE", help="what to search (YAML)")
    text = "choices to try, those of an earlier call included; default 50"
    add("--trials", type=int, default=50, metavar="N", help=text)
    add("--output", metavar="FILE", help="config file to write; default DIR/best.yaml")
    add_run_options(parser, "lightning_logs/tune/SPACE", seeds="val6", inits=1)
    return parser


def _check_names(file: str, space: Space, rest: Sequence[str]) -> None:
    """Refuse options that a search sets itself, or that it would silently override."""
    refuse("pamt tune", typed_names(rest), _NOT_TYPED)
    refuse(file, space.option_names(), _NOT_SEARCHED)
    if space.datasets and Choices.read(rest).names_data:
        raise InputError(
            f"{file} names its data sets ({', '.join(space.datasets)}), and so does the command "
            "line: leave one of the two out."
        )


def _check_splits(typed: FitOptions, space: Space, seeds: Sequence[str]) -> None:
    """Refuse splits that would use the published test nodes, or seeds that are for testing."""
    from pamt_lightning.data.datamodule import GraphDataModule

    for dataset in space.datasets or (None,):
        data = typed.configure({}, dataset).data
        names = ("dataset", "path", "split", "split_path")
        given: dict[str, Any] = {name: data.get(name) for name in names}
        module = GraphDataModule(**given)
        by_protocol = module.split_name == "ppnp"
        if module.spec and not module.spec.generated:
            number = data.get("num_known")
            if not by_protocol or (number is not None and number > module.spec.num_known):
                what = f"`num_known`={number}" if by_protocol else f"`split`={module.split_name!r}"
                raise InputError(
                    f"a search on {module.dataset_name} must not use its published test nodes, "
                    f"got {what}: leave that out."
                )
        check_seeds(seeds, published=by_protocol)
