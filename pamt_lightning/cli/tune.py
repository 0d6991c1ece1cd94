"""`pamt tune`: search for options on validation splits."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pamt_lightning.cli.arguments import Parser
from pamt_lightning.cli.choices import Choices
from pamt_lightning.cli.study import (
    add_run_options,
    fit_options,
    local_runner,
    refuse,
    typed_names,
)
from pamt_lightning.errors import InputError, error_context
from pamt_lightning.studies.results import Results
from pamt_lightning.studies.runner import check_jobs
from pamt_lightning.studies.seeds import split_seeds
from pamt_lightning.studies.space import Place, Space, read_space
from pamt_lightning.studies.study import Study, init_seeds
from pamt_lightning.studies.tune import (
    Trial,
    Tuner,
    best_config,
    check_seeds,
    require_optuna,
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
# Options that neither the command line nor a space may set, and options that a space may not set.
_FOLLOWS_SPLIT = {"data.noise_seed": "it follows the split"}
_NOT_SEARCHED = {
    **_FOLLOWS_SPLIT,
    **dict.fromkeys(("data", "data.dataset", "data.path"), "that is what `datasets` is for"),
    **dict.fromkeys(
        (f"data.{name}" for name in ("split", "split_path", "train", "val", "test", "num_known")),
        "all choices are trained and scored on the same nodes",
    ),
    **dict.fromkeys(("model", "model.class_path", "config"), "a search is for one method: type it"),
}


def run_tune(argv: Sequence[str]) -> int:
    """Run ``pamt tune`` with the arguments that follow it."""
    options, rest = _parser().parse_known_args(argv)
    if options.trials < 1:
        raise InputError(f"`trials` must be 1 or more, got {options.trials}.")
    space = read_space(options.space)
    _check_names(options.space, space, rest)
    folder = Path(options.folder or f"lightning_logs/tune/{Path(options.space).stem}")
    study = Study(
        name=folder.name,
        title="tuning",
        datasets=space.datasets,
        methods=("tuned",),
        splits=split_seeds(options.seeds),
        inits=init_seeds(1 if options.inits is None else options.inits),
        reference="tuned",
        split_options=("data.noise_seed",),
    )
    jobs = check_jobs(options.jobs, options.threads)
    require_optuna()
    typed = fit_options("tune", rest)
    check_seeds(study.splits, published=any(_are_published(typed, space)))
    # A wrong option or value is reported now, before anything is stored.
    first, *others = space.samples()
    with error_context(options.space):
        space.runs(typed.configure, first, study, options.threads)
        for choice in others:
            space.places()[0].configure(typed.configure, choice)
    with local_runner(Results(folder), jobs, options.threads, quiet=True) as runner:
        tuner = Tuner(space, typed.configure, study, runner, options.threads, options.retry)
        try:
            trials = tuner.search(folder / "optuna.sqlite3", options.trials)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted. The same command resumes.") from None
    write_trials(folder / "trials.csv", trials)
    if trials[0].state != "complete":
        print(f"No trial was finished; see {folder / 'trials.csv'}.", file=sys.stderr)
        return 1
    worth = verdict(trials[0], tuner.first_choice(trials))
    output = Path(options.output) if options.output else folder / "best.yaml"
    content = best_config(
        space, typed.configure, trials[0].choice, typed_names(rest), typed.configurator
    )
    write_choice(output, content, [*_comments(tuner, trials, argv), *worth])
    _print_trials(trials)
    print(f"Scored by the mean accuracy on the {tuner.scored_on()}.", *worth, sep="\n")
    print(f"best choice: {output}\nall trials:  {folder / 'trials.csv'}")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="pamt tune",
        description="Search for options on validation splits (Optuna, extra `tune`).",
        epilog=_EPILOG,
    )
    parser.add_argument("--space", required=True, metavar="FILE", help="what to search (YAML)")
    parser.add_argument(
        "--trials",
        type=int,
        default=50,
        metavar="N",
        help="choices to try, those of an earlier call included; default 50",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="config file to write; default DIR/best.yaml"
    )
    add_run_options(
        parser,
        seeds="val6",
        folder="lightning_logs/tune/SPACE",
        seeds_help="validation splits, such as val8",
        retry_help="repeat failed trials",
    )
    return parser


def _check_names(file: str, space: Space, rest: Sequence[str]) -> None:
    """Refuse options that a search sets itself, or that it would silently override."""
    typed, searched = typed_names(rest), space.option_names()
    _refuse_all("pamt tune", typed, _FOLLOWS_SPLIT)
    _refuse_all(file, searched, _NOT_SEARCHED)
    if space.datasets and Choices.read(rest).names_data:
        raise InputError(
            f"{file} names its data sets ({', '.join(space.datasets)}), and so does the command "
            "line: leave one of the two out."
        )


def _refuse_all(source: str, names: Collection[str], reasons: dict[str, str]) -> None:
    refuse(source, names)
    for name, why in reasons.items():
        if name in names:
            raise InputError(f"`{source}` takes no --{name}: {why}.")


def _are_published(typed: FitOptions, space: Space) -> list[bool]:
    """For each data set, whether it is split by the published protocol.

    Raises:
        InputError: A published data set is split otherwise, so that its test nodes could be used.
    """
    from pamt_lightning.data.datamodule import GraphDataModule

    found = []
    for dataset in space.datasets or (None,):
        data = Place(dataset, {}).configure(typed.configure, {}).data
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
        found.append(by_protocol)
    return found


def _comments(tuner: Tuner, trials: Sequence[Trial], argv: Sequence[str]) -> list[str]:
    pruned = sum(trial.state == "pruned" for trial in trials)
    return [
        f"Chosen by: {shlex.join(['pamt', 'tune', *argv])}",
        f"Mean accuracy {100 * (trials[0].score or 0):.2f} % on the {tuner.scored_on()} of the "
        f"splits {', '.join(tuner.study.splits)}; best of {len(trials)} trials ({pruned} stopped "
        "early).",
    ]


def _print_trials(trials: Sequence[Trial]) -> None:
    for trial in trials[:10]:
        score = "" if trial.score is None else f"{100 * trial.score:.2f}"
        print(f"{trial.number:4}  {score:>6}  {trial.state:<8}  {shown(trial.choice)}")
