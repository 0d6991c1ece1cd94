"""`pamt study` and `pamt bench`: many runs, and their report."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pamt_lightning.cli.arguments import Parser
from pamt_lightning.cli.choices import Choices
from pamt_lightning.data.published.registry import DEFAULT_DATASET
from pamt_lightning.errors import InputError, error_context
from pamt_lightning.plots import plots_available
from pamt_lightning.studies.executor import LocalExecutor, Prepare, Work
from pamt_lightning.studies.report import render
from pamt_lightning.studies.report.tables import counted
from pamt_lightning.studies.results import RUNS, Results, Row
from pamt_lightning.studies.runner import Runner, check_jobs, sigterm_interrupts
from pamt_lightning.studies.runs import (
    Run,
    compute,
    digest,
    expand,
    expand_cells,
    outcomes,
    prepare,
    result_affecting,
)
from pamt_lightning.studies.seeds import split_seeds
from pamt_lightning.studies.study import NARROWING, Cell, Study, init_seeds, read_study, studies
from pamt_lightning.training.config import RunConfig

if TYPE_CHECKING:
    from pamt_lightning.cli.configure import FitOptions

FOLDER = "lightning_logs/studies"
# What worker processes do: names of the module, so that tests can replace them.
WORK: Work = compute
PREPARE: Prepare | None = prepare

# Options of `pamt fit` that many runs cannot share, and why.
FIXED = {
    "data.split_seed": "use --seeds",
    "seed_everything": "use --inits",
    **dict.fromkeys(("ckpt_path", "run_dir", "print_config"), "it is for one run"),
}
_STUDY_EPILOG = """\
examples:
  pamt study main                                      every method on every data set
  pamt study noise --datasets cora_ml --methods PAMT,PTA --seeds test3
  pamt study my_study.yaml --jobs 2                    a study of your own
  pamt study main --report                             tables from the runs that are done

Runs are spread over processes and stored in FOLDER/runs.jsonl. The same command resumes a study
that was stopped by Ctrl-C, a kill or a power cut; a finished run is never repeated, and several
commands may work on one folder. A run is the same if its configuration, its data and the results
version of its method are the same.
"""
_BENCH_EPILOG = """\
examples:
  pamt bench --config configs/pubmed.yaml --seeds test20
  pamt bench --config configs/cora_ml.yaml --model GAT --model.num_heads 4 --seeds test5 --inits 3
  pamt bench --data.path my_graph/ --seeds 0,1,2,3,4

All other options are those of `pamt fit`.
"""


def run_study(argv: Sequence[str]) -> int:
    """Run ``pamt study`` with the arguments that follow it."""
    options = _study_parser().parse_args(argv)
    if not options.studies:
        for name, path in studies().items():
            print(f"{name:<12}{read_study(str(path)).title}")
        return 0
    typed = {name: vars(options)[name] for name in NARROWING if vars(options)[name] is not None}
    chosen = [read_study(name, **typed) for name in options.studies]
    names = [study.name for study in chosen]
    for study in chosen:
        refuse(study.source, study.option_names())
        if names.count(study.name) > 1:
            raise InputError(
                f"two of the studies are named {study.name!r}, so their reports would overwrite "
                "each other: rename a file, or run them with different --folder."
            )
    if options.any_version and not options.report:
        raise InputError("--any-version goes with --report: runs are always of this version.")
    if options.report and not Path(options.folder, RUNS).is_file():
        raise InputError(f"there is nothing to report on in {options.folder}: it has no {RUNS}.")
    # A report needs no cores: it may be about runs of a bigger machine.
    jobs = 0 if options.report else check_jobs(options.jobs, options.threads)

    from pamt_lightning.cli.configure import Configurator

    configure = Configurator()
    runs: list[list[Run]] = []
    for study in chosen:
        with error_context(study.source):
            runs.append(expand(study, configure, options.threads))
    return _run_and_report(chosen, runs, jobs, options, shlex.join(["pamt", "study", *argv]))


def run_bench(argv: Sequence[str]) -> int:
    """Run ``pamt bench`` with the arguments that follow it."""
    parser = Parser(
        prog="pamt bench",
        description="One configuration on many splits: mean, deviation and interval.",
        epilog=_BENCH_EPILOG,
    )
    add_run_options(parser, FOLDER, seeds="test20", inits=1)
    parser.set_defaults(folder=FOLDER, report=False, any_version=False, summary=None)
    options, rest = parser.parse_known_args(argv)
    refuse("pamt bench", typed_names(rest))
    splits, inits = split_seeds(options.seeds), init_seeds(options.inits)
    jobs = check_jobs(options.jobs, options.threads)
    typed = fit_options("bench", rest)
    data, method = typed.config.data, typed.config.method
    dataset = str(data.get("dataset") or Path(data.get("path") or DEFAULT_DATASET).stem)
    command = shlex.join(["pamt", "bench", *argv])
    name = f"bench_{dataset}_{method}_{digest(_without_seeds(typed.config))[:8]}"
    title, cell = f"{method} on {dataset}", Cell(dataset, method)
    study = Study(name, title, (dataset,), (method,), splits, inits, command, reference=method)
    runs = expand_cells(study, [cell], lambda _, more: typed.configure(more), options.threads)
    return _run_and_report([study], [runs], jobs, options, command)


def _study_parser() -> Parser:
    parser = Parser(
        prog="pamt study",
        description="Run a study: data sets × methods × splits.",
        epilog=_STUDY_EPILOG,
    )
    add, known = parser.add_argument, ", ".join(studies())
    add("studies", nargs="*", metavar="STUDY", help=f"{known}, or a YAML file; none lists them")
    add("--datasets", type=_list, metavar="A,B", help="only these data sets, or config files")
    add("--methods", type=_list, metavar="A,B", help="only these methods, or config files")
    add("--reference", type=_list, metavar="NAME", help="the method that all are compared with")
    add("--report", action="store_true", help="run nothing, write the reports of what is there")
    text = "with --report: for missing runs, use those of another results version, and count them"
    add("--any-version", "--any-code", dest="any_version", action="store_true", help=text)
    add("--summary", metavar="FILE", help="also one Markdown file with the tables of all studies")
    add_run_options(parser, FOLDER)
    parser.set_defaults(folder=FOLDER)
    return parser


def add_run_options(
    parser: Parser, folder: str, seeds: str | None = None, inits: int | None = None
) -> None:
    """Add the options that all commands with many runs share."""
    add = parser.add_argument
    text = "splits: test20 (the first 20 published test seeds), val5 (validation seeds) or a list: "
    text += f"test0,7,42; default {seeds or 'those of the study'}"
    add("--seeds", metavar="LIST", default=seeds, help=text)
    text = f"initialisations of each split; default {inits or 'that of the study'}"
    add("--inits", type=int, metavar="M", default=inits, help=text)
    add("--jobs", type=int, metavar="J", help="processes; default as many as the cores allow")
    add("--threads", type=int, default=1, metavar="T", help="threads of each run; default 1")
    add("--folder", metavar="DIR", help=f"where results go; default {folder}")
    add("--retry", action="store_true", help="repeat what failed")


def typed_names(args: Sequence[str]) -> set[str]:
    """The names of the options on a command line."""
    names = [arg.partition("=")[0].removeprefix("--") for arg in args if arg.startswith("--")]
    return {name.rstrip("+") for name in names}


def refuse(source: str, names: Collection[str], reasons: Mapping[str, str] = FIXED) -> None:
    """Refuse the options that have a reason against them."""
    for name, why in reasons.items():
        if name in names:
            raise InputError(f"`{source}` takes no --{name}: {why}.")


def fit_options(command: str, args: Sequence[str]) -> FitOptions:
    """The options of `pamt fit` on the command line of another command."""
    Choices.read(args).resolve()  # unknown names are reported before torch is imported

    from pamt_lightning.cli.configure import FitOptions

    return FitOptions.parse(command, args)


def _list(value: str) -> list[str]:
    return [part for part in value.split(",") if part]


@contextmanager
def local_runner(
    results: Results, jobs: int, threads: int, *, quiet: bool = False
) -> Iterator[Runner]:
    """A runner with worker processes; SIGTERM interrupts it like Ctrl-C."""
    with sigterm_interrupts(), closing(LocalExecutor(WORK, jobs, threads, PREPARE)) as executor:
        yield Runner(results, executor, quiet)


def _run_and_report(
    chosen: Sequence[Study], runs: Sequence[Sequence[Run]], jobs: int, options: Any, command: str
) -> int:
    """Compute the runs of some studies unless only a report is wanted; the exit code."""
    wanted = [run for part in runs for run in part]
    results = Results(Path(options.folder))
    failed: dict[str, str] = {}
    if not options.report:
        with local_runner(results, jobs, options.threads) as runner:
            try:
                failed = runner.run(wanted, retry=options.retry)
            except KeyboardInterrupt:
                rows = results.known_rows(wanted)
                done = sum(row.get("error") is None for row in rows.values())
                total = len({run.run_id for run in wanted})
                raise KeyboardInterrupt(
                    f"interrupted, {done} of {total} runs are done. The same command resumes."
                ) from None
    elif damaged := results.damaged():
        print(damaged, file=sys.stderr)
    rows = results.known_rows(wanted, any_version=options.any_version)
    finished = [_report(*each, rows, results.folder) for each in zip(chosen, runs, strict=True)]
    if options.summary:
        facts = {"command": command, "environment": _environment(rows.values())}
        render.write_summary(Path(options.summary), finished, runs=results.path, **facts)
        print(options.summary)
    by_id = {run.run_id: run for run in wanted}
    for run_id, error in failed.items():
        run, cell = by_id[run_id], by_id[run_id].cell
        point = "" if cell.option is None else f" with {cell.option} {cell.value}"
        where = f"{cell.method} on {cell.dataset}{point}, split {run.split_seed}"
        print(f"failed: {where}, init {run.init_seed}: {error}", file=sys.stderr)
    if failed:
        print(f"{counted(len(failed), 'run')} failed; --retry repeats them.", file=sys.stderr)
    return int(bool(failed))


def _report(
    study: Study, runs: Sequence[Run], rows: Mapping[str, Row], results: Path
) -> render.StudyReport:
    folder, found = results / study.name, outcomes(runs, rows)
    environment = _environment(rows[run.run_id] for run in runs if run.run_id in rows)
    facts = {"configurations": _configurations(runs), "environment": environment}
    text = render.write_reports(study, found, folder, **facts)
    without_pictures = re.sub(r"^!\[.*\n\n\*.*\n\n", "", text, flags=re.MULTILINE)
    print(f"{without_pictures}\n{folder / render.RESULTS}\n{folder / render.PAGE}")
    if not plots_available():
        print(f"no figures were drawn in {folder}: pip install 'pamt-lightning[plots]'")
    return render.StudyReport(study, found, len({run.run_id for run in runs}), text)


def _configurations(runs: Sequence[Run]) -> dict[str, Any]:
    """The configuration of each method on each data set, without seeds."""
    found: dict[str, Any] = {}
    for run in runs:
        swept = "" if run.cell.option is None else f" ({run.cell.option} varied)"
        name = f"{run.cell.method} on {run.cell.dataset}{swept}"
        found.setdefault(name, {**_without_seeds(run.config), "threads": run.threads})
    return found


def _without_seeds(config: RunConfig) -> dict[str, Any]:
    content = result_affecting(config)
    del content["seed"], content["data"]["split_seed"]
    return content


def _environment(rows: Iterable[Row]) -> dict[str, str]:
    """Versions and machine of the runs; if they differ, all values."""
    merged: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.get("environment", {}).items():  # failed runs have none
            merged.setdefault(name, set()).add(str(value))
    return {name: ", ".join(sorted(values)) for name, values in merged.items()}
