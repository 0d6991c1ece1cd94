"""`pamt tune`: search for options on the validation seeds."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pamt_lightning.cli.config_files import names_data
from pamt_lightning.errors import InputError
from pamt_lightning.studies.expand import Configure, config_file
from pamt_lightning.studies.options import add_common, command_parser, refuse
from pamt_lightning.studies.outcome import Value
from pamt_lightning.studies.report.wording import VERDICTS, points
from pamt_lightning.studies.runner import Runner, check_jobs
from pamt_lightning.studies.seeds import split_seeds
from pamt_lightning.studies.space import Choice, Place, Space, read_space
from pamt_lightning.studies.statistics import compare
from pamt_lightning.studies.store import Store
from pamt_lightning.studies.study import Study
from pamt_lightning.studies.study_files import check_inits, dataset_name, told_of
from pamt_lightning.studies.tune import Trial, Tuner, check_seeds, require_optuna
from pamt_lightning.training.folders import write_whole

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
  datasets: [cora_ml, pubmed]  # optional: one choice for all of these; then type no data
  conditions:                  # optional: each data set is scored under each of these
    - {}
    - {data.structure_noise: 0.5}

A choice is scored by its mean accuracy on the known nodes that are used neither for training nor
for stopping, over the validation splits; test seeds are refused. Choices that are clearly worse
than the best one on the same splits are given up early. The same command goes on with a search that
was stopped, and does an interrupted trial again. The best choice is compared with the first one on
the same splits; fewer than six can show nothing. All other options are those of `pamt fit`.
"""
# What neither the command line nor a space may set, and what a space may not, with the reason.
_NOT_TYPED = {"data.noise_seed": "it follows the split"}
_NOT_SEARCHED = {
    **_NOT_TYPED,
    **dict.fromkeys(("data", "data.dataset", "data.path"), "that is what `datasets` is for"),
    **dict.fromkeys(
        (f"data.{name}" for name in ("split", "split_path", "train", "val", "test", "num_known")),
        "all choices are trained and scored on the same nodes",
    ),
    **dict.fromkeys(("model", "model.class_path", "config"), "a search is for one method: type it"),
}


def run(argv: Sequence[str]) -> int:
    """Run ``pamt tune`` with the arguments that follow it."""
    about = "Search for options on validation splits (Optuna, extra `tune`)."
    parser = command_parser("pamt tune", about, _EPILOG)
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
    add_common(
        parser,
        seeds="val6",
        folder="lightning_logs/tune/SPACE",
        seeds_help="validation splits, such as val8",
        retry_help="try failed trials again",
    )
    options, rest = parser.parse_known_args(argv)
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
        inits=tuple(range(check_inits(1 if options.inits is None else options.inits))),
        reference="tuned",
        split_options=("data.noise_seed",),
    )
    jobs = check_jobs(options.jobs, options.threads)

    from pamt_lightning.cli.fit_parser import FitParser

    configure = FitParser().configuration
    check_seeds(study.splits, published=any(_is_published(configure, space, rest)))
    require_optuna()
    # A misspelt option or a wrong value is told now, before anything is stored.
    first, *others = space.samples()
    with told_of(options.space):  # what is typed was fine by itself
        space.runs(rest, first, study, configure, options.threads)
        for choice in others:
            configure(space.args(space.places()[0], rest, choice))
    with Runner(Store(folder), jobs, options.threads, quiet=True) as runner:
        tuner = Tuner(space, rest, study, configure, runner, options.threads, options.retry)
        try:
            trials = tuner.search(folder / "optuna.sqlite3", options.trials)
        except KeyboardInterrupt:
            print("\nInterrupted. The same command goes on.", file=sys.stderr)
            raise SystemExit(130) from None
    return _conclude(tuner, trials, folder, options, argv)


def _check_names(file: str, space: Space, rest: list[str]) -> None:
    """Refuse options that a search sets itself, or that would be overruled silently."""
    named = [f"--{name}" for name in sorted(space.named())]
    for who, words, reasons in (("pamt tune", rest, _NOT_TYPED), (file, named, _NOT_SEARCHED)):
        refuse(who, words)
        for name, why in reasons.items():
            if any(re.match(rf"--{re.escape(name)}(=|$)", word) for word in words):
                raise InputError(f"`{who}` takes no --{name}: {why}.")
    if space.datasets and names_data(rest):
        raise InputError(
            f"{file} names its data sets ({', '.join(space.datasets)}), and so does what is typed: "
            "leave one of the two out."
        )


def _conclude(
    tuner: Tuner, trials: list[Trial], folder: Path, options: Any, argv: Sequence[str]
) -> int:
    write_trials(folder / "trials.csv", trials)
    best = trials[0]
    if best.state != "complete" or best.score is None:
        print(f"No trial was finished; see {folder / 'trials.csv'}.", file=sys.stderr)
        return 1
    output = Path(options.output) if options.output else folder / "best.yaml"
    pruned = sum(trial.state == "pruned" for trial in trials)
    worth = verdict(best, tuner.first_choice(trials))
    source = [
        f"Chosen by: {shlex.join(['pamt', 'tune', *argv])}",
        f"Mean accuracy {100 * best.score:.2f} % on the {tuner.scored_on()} of the splits "
        f"{', '.join(tuner.study.splits)}; best of {len(trials)} trials ({pruned} given up early).",
        *worth,
    ]
    content = as_config(tuner.space, tuner.args, best.choice, tuner.configure)
    write_choice(output, content, source)
    for trial in trials[:10]:
        score = "" if trial.score is None else f"{100 * trial.score:.2f}"
        print(f"{trial.number:4}  {score:>6}  {trial.state:<8}  {_shown(trial.choice)}")
    print(f"Scored by the mean accuracy on the {tuner.scored_on()}.", *worth, sep="\n")
    print(f"best choice: {output}\nall trials:  {folder / 'trials.csv'}")
    return 0


def verdict(best: Trial, first: Trial) -> list[str]:
    """Lines on whether the best choice is better than the first, on the splits both have."""
    if best.number == first.number:
        return [f"The first choice (trial {first.number}) is the best: none was found above it."]
    found = compare(best.by_split, first.by_split)
    not_shown = "" if found.verdict == "better" else "not "
    word = VERDICTS["too few" if found.verdict == "unknown" else found.verdict]
    splits = "split" if found.count == 1 else "splits"
    return [
        f"Trial {best.number} minus the first choice (trial {first.number}): "
        f"{points(found.difference)} points, 95 % interval {points(found.low)} to "
        f"{points(found.high)}, on {found.count} common {splits}: {word}.",
        f"It was {not_shown}shown to be better than {_shown(first.choice)}.",
        "The best of several is flattered by the splits it was chosen on; others tell more.",
    ]


def as_config(
    space: Space, typed: Sequence[str], choice: Choice, configure: Configure
) -> dict[str, Any]:
    """The choice as a config that gives the model that was scored, laid over a data set's file.

    It names the class, and holds what was chosen or typed for the model and whatever else differs
    from that file: a method's own values lie in none of the files that are left then.
    """
    names = [f"--{name}" for name in choice] + [*typed]
    found = (re.match(r"--model\.(?:init_args\.)?(\w+)", name) for name in names)
    needed = {match[1] for match in found if match} - {"class_path", "help"}
    models: dict[str | None, dict[str, Any]] = {}
    class_path = ""
    for dataset in space.datasets or (None,):
        config = configure(space.args(Place(dataset, {}), typed, choice))
        class_path, values = config["model"]["class_path"], config["model"].get("init_args", {})
        data = config["data"]
        name = None if data.get("path") else dataset_name(data.get("dataset") or "synthetic")
        file = dataset or name
        below = [] if file is None else ["--config", config_file(file)]
        bare = json.dumps({"model": {"class_path": class_path}})
        own = configure([*below, "--config", bare])["model"].get("init_args", {})
        needed |= {key for key, value in values.items() if key not in own or own[key] != value}
        models[name] = values
    # What differs between data sets stands below their names; a graph of one's own has none.
    usual = models.get(None, next(iter(models.values())))
    content = _nested({k: v for k, v in choice.items() if not k.startswith("model.")})
    content["model"] = {"class_path": class_path, "init_args": _of(usual, needed)}
    for name, values in models.items():
        others = {key for key in needed & set(values) if usual.get(key) != values[key]}
        if name is not None and others:
            part = {"model": {"init_args": _of(values, others)}}
            content.setdefault("by_dataset", {})[name] = part
    return content


def write_choice(path: Path, content: Mapping[str, Any], source: Sequence[str]) -> None:
    """A choice as a config file whose first lines say where it comes from."""
    text = "".join(f"# {line}\n" for line in source) + yaml.safe_dump(content, sort_keys=False)
    write_whole(path, lambda file: print(text, end="", file=file))


def write_trials(path: Path, trials: Sequence[Trial]) -> None:
    """All trials as CSV: the score, and that of each data set under each condition."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.choice))
    places = list(dict.fromkeys(place for trial in trials for place in trial.by_place))

    def write(file: Any) -> None:
        writer = csv.writer(file)
        writer.writerow(["trial", "state", "score", "splits", *places, *names, "why"])
        for trial in trials:
            scores = [trial.by_place.get(place, math.nan) for place in places]
            writer.writerow(
                [
                    *(trial.number, trial.state, trial.score, len(trial.by_split)),
                    *("" if math.isnan(score) else score for score in scores),
                    *(trial.choice.get(name) for name in names),
                    trial.why,
                ]
            )

    write_whole(path, write)


def _shown(choice: Choice) -> str:
    return ", ".join(f"{name} {value}" for name, value in choice.items())


def _of(values: Mapping[str, Any], keys: set[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in keys}


def _nested(choice: Mapping[str, Value]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in choice.items():
        *sections, last = name.split(".")
        place = content
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return content


def _is_published(configure: Configure, space: Space, rest: list[str]) -> list[bool]:
    """For each data set, whether it is split by the published protocol.

    Raises:
        InputError: A published data set is split otherwise, so that its test nodes could be seen.
    """
    from pamt_lightning.data.datamodule import GraphDataModule

    found = []
    for dataset in space.datasets or (None,):
        data = configure(space.args(Place(dataset, {}), rest, {}))["data"]
        names = ("dataset", "path", "split", "split_path")
        module = GraphDataModule(**{name: data.get(name) for name in names})
        by_protocol = module.split_name == "ppnp"
        if module.spec and not module.spec.generated:
            number = data.get("num_known")
            if not by_protocol or (number is not None and number > module.spec.num_known):
                what = f"`num_known`={number}" if by_protocol else f"`split`={module.split_name!r}"
                raise InputError(
                    f"a search on {module.dataset_name} must leave its published test nodes alone, "
                    f"got {what}: leave that out."
                )
        found.append(by_protocol)
    return found
