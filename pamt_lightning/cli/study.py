"""`pamt study` and `pamt bench`: many runs, and their report."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pamt_lightning.cli.arguments import Parser
from pamt_lightning.cli.choices import Choices
from pamt_lightning.errors import InputError, error_context
from pamt_lightning.plots import plots_available
from pamt_lightning.studies.executor import LocalExecutor, Work
from pamt_lightning.studies.outcome import Cell
from pamt_lightning.studies.report.render import (
    PAGE,
    RESULTS,
    StudyReport,
    write_reports,
    write_summary,
)
from pamt_lightning.studies.report.tables import counted
from pamt_lightning.studies.results import RUNS, Results
from pamt_lightning.studies.runner import Runner, Tally, check_jobs, sigterm_interrupts
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
from pamt_lightning.studies.study import Study, init_seeds, read_study, studies
from pamt_lightning.training.config import RunConfig

if TYPE_CHECKING:
    from pamt_lightning.cli.configure import FitOptions

FOLDER = "lightning_logs/studies"
# What worker processes do: names of the module, so that tests can replace them.
WORK: Work = compute
PREPARE: Callable[[], None] | None = prepare

_FIXED = {
    "data.split_seed": ": use --seeds",
    "seed_everything": ": use --inits",
    **dict.fromkeys(("ckpt_path", "run_dir", "print_config"), ""),
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
    chosen = [
        read_study(
            name,
            datasets=_list(options.datasets),
            methods=_list(options.methods),
            seeds=options.seeds,
            inits=options.inits,
            reference=options.reference,
        )
        for name in options.studies
    ]
    names = [study.name for study in chosen]
    for study in chosen:
        refuse(study.source, study.option_names())
        if names.count(study.name) > 1:
            raise InputError(
                f"two of the studies are named {study.name!r}, so their reports would overwrite "
                "each other: rename a file, or run them with different --folder."
            )
    folder = Path(options.folder or FOLDER)
    if options.any_version and not options.report:
        raise InputError("--any-version goes with --report: runs are always of this version.")
    if options.report and not (folder / RUNS).is_file():
        raise InputError(f"there is nothing to report on in {folder}: it has no {RUNS}.")
    # A report needs no cores: it may be about runs of a bigger machine.
    jobs = 0 if options.report else check_jobs(options.jobs, options.threads)
    runs = _expand_all(chosen, options.threads)
    wanted = [run for part in runs for run in part]
    results = Results(folder)
    tally = Tally()
    if not options.report:
        tally = _run_all(wanted, results, jobs, options)
    finished = [
        _report(study, part, results, any_version=options.any_version)
        for study, part in zip(chosen, runs, strict=True)
    ]
    if options.report and (damaged := results.damaged()):
        print(damaged, file=sys.stderr)
    if options.summary:
        write_summary(
            Path(options.summary),
            finished,
            shlex.join(["pamt", "study", *argv]),
            runs=results.path,
            environment=_environment(results.known_rows(wanted, any_version=options.any_version)),
        )
        print(options.summary)
    return _exit_code(tally, wanted)


def run_bench(argv: Sequence[str]) -> int:
    """Run ``pamt bench`` with the arguments that follow it."""
    parser = Parser(
        prog="pamt bench",
        description="One configuration on many splits: mean, deviation and interval.",
        epilog=_BENCH_EPILOG,
    )
    add_run_options(parser, seeds="test20", inits="1", folder=FOLDER)
    parser.set_defaults(seeds="test20", inits=1)
    options, rest = parser.parse_known_args(argv)
    refuse("pamt bench", typed_names(rest))
    splits, inits = split_seeds(options.seeds), init_seeds(options.inits)
    jobs = check_jobs(options.jobs, options.threads)
    typed = fit_options("bench", rest)
    cell = Cell(_dataset_of(typed.config), typed.config.method)
    study = Study(
        name=f"bench_{cell.dataset}_{cell.method}_{digest(_without_seeds(typed.config))[:8]}",
        title=f"{cell.method} on {cell.dataset}",
        description=shlex.join(["pamt", "bench", *argv]),
        datasets=(cell.dataset,),
        methods=(cell.method,),
        splits=splits,
        inits=inits,
        reference=cell.method,
    )
    runs = expand_cells(study, [cell], lambda _, more: typed.configure(more), options.threads)
    results = Results(Path(options.folder or FOLDER))
    tally = _run_all(runs, results, jobs, options)
    _report(study, runs, results)
    return _exit_code(tally, runs)


# Options -----------------------------------------------------------------------------------------


def _study_parser() -> Parser:
    parser = Parser(
        prog="pamt study",
        description="Run a study: data sets × methods × splits.",
        epilog=_STUDY_EPILOG,
    )
    parser.add_argument(
        "studies",
        nargs="*",
        metavar="STUDY",
        help=f"{', '.join(studies())}, or a YAML file; none lists them",
    )
    parser.add_argument("--datasets", metavar="A,B", help="only these data sets, or config files")
    parser.add_argument("--methods", metavar="A,B", help="only these methods, or config files")
    parser.add_argument("--reference", metavar="NAME", help="the method that all are compared with")
    parser.add_argument(
        "--report", action="store_true", help="run nothing, write the reports of what is there"
    )
    parser.add_argument(
        "--any-version",
        "--any-code",
        dest="any_version",
        action="store_true",
        help="with --report: if a run is missing, use one of another results version; the report "
        "shows how many",
    )
    parser.add_argument(
        "--summary", metavar="FILE", help="also one Markdown file with the tables of all studies"
    )
    add_run_options(parser, seeds="those of the study", inits="that of the study", folder=FOLDER)
    return parser


def add_run_options(parser: Parser, *, seeds: str, inits: str, folder: str) -> None:
    """Add the options that all commands with many runs share; the defaults are for the help."""
    parser.add_argument(
        "--seeds",
        metavar="LIST",
        help="splits: test20 (the first 20 published test seeds), val5 (validation seeds), or a "
        f"list: test0,7,42; default {seeds}",
    )
    parser.add_argument(
        "--inits", type=int, metavar="M", help=f"initialisations of each split; default {inits}"
    )
    parser.add_argument(
        "--jobs", type=int, metavar="J", help="processes; default as many as the cores allow"
    )
    parser.add_argument(
        "--threads", type=int, default=1, metavar="T", help="threads of each run; default 1"
    )
    parser.add_argument("--folder", metavar="DIR", help=f"where results go; default {folder}")
    parser.add_argument("--retry", action="store_true", help="repeat what failed")


def typed_names(args: Sequence[str]) -> set[str]:
    """The names of the options on a command line."""
    return {word.partition("=")[0].removeprefix("--") for word in args if word.startswith("--")}


def refuse(source: str, names: Collection[str]) -> None:
    """Refuse options of `pamt fit` that many runs cannot share."""
    for name, hint in _FIXED.items():
        if name in names:
            raise InputError(f"`{source}` takes no --{name}{hint}.")


def fit_options(command: str, args: Sequence[str]) -> FitOptions:
    """The options of `pamt fit` on the command line of another command."""
    Choices.read(args).resolve()  # unknown names are reported before torch is imported

    from pamt_lightning.cli.configure import FitOptions

    return FitOptions.parse(command, args)


def _list(value: str | None) -> list[str] | None:
    return None if value is None else [part for part in value.split(",") if part]


# Running -----------------------------------------------------------------------------------------


def _expand_all(chosen: Sequence[Study], threads: int) -> list[list[Run]]:
    from pamt_lightning.cli.configure import Configurator

    configure = Configurator()
    runs = []
    for study in chosen:
        with error_context(study.source):
            runs.append(expand(study, configure, threads))
    return runs


@contextmanager
def local_runner(
    results: Results, jobs: int, threads: int, *, quiet: bool = False
) -> Iterator[Runner]:
    """A runner with worker processes; SIGTERM interrupts it like Ctrl-C."""
    with sigterm_interrupts(), closing(LocalExecutor(WORK, jobs, threads, PREPARE)) as executor:
        yield Runner(results, executor, quiet)


def _run_all(runs: Sequence[Run], results: Results, jobs: int, options: Any) -> Tally:
    with local_runner(results, jobs, options.threads) as runner:
        try:
            return runner.run(runs, retry=options.retry)
        except KeyboardInterrupt:
            rows = results.known_rows(runs).values()
            done = sum(row.get("error") is None for row in rows)
            total = len({run.run_id for run in runs})
            raise KeyboardInterrupt(
                f"interrupted, {done} of {total} runs are done. The same command resumes."
            ) from None


# Reporting ---------------------------------------------------------------------------------------


def _report(
    study: Study, runs: Sequence[Run], results: Results, *, any_version: bool = False
) -> StudyReport:
    folder = results.folder / study.name
    rows = results.known_rows(runs, any_version=any_version)
    found = outcomes(runs, rows)
    text = write_reports(
        study,
        found,
        folder,
        configurations=_configurations(runs),
        environment=_environment(rows),
    )
    without_pictures = re.sub(r"^!\[.*\n\n\*.*\n\n", "", text, flags=re.MULTILINE)
    print(f"{without_pictures}\n{folder / RESULTS}\n{folder / PAGE}")
    if not plots_available():
        print(f"no figures were drawn in {folder}: pip install 'pamt-lightning[plots]'")
    return StudyReport(study, found, len({run.run_id for run in runs}), text)


def _configurations(runs: Sequence[Run]) -> dict[str, Any]:
    """The configuration of each method on each data set, without seeds."""
    found: dict[str, Any] = {}
    for run in runs:
        swept = "" if run.cell.option is None else f" ({run.cell.option} varied)"
        name = f"{run.cell.method} on {run.cell.dataset}{swept}"
        if name not in found:
            found[name] = {**_without_seeds(run.config), "threads": run.threads}
    return found


def _without_seeds(config: RunConfig) -> dict[str, Any]:
    content = result_affecting(config)
    del content["seed"], content["data"]["split_seed"]
    return content


def _environment(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Versions and machine of the runs; if they differ, all values."""
    merged: dict[str, list[str]] = {}
    for row in rows.values():
        environment = row.get("environment")
        # Rows of earlier versions hold a key of another file.
        for name, value in environment.items() if isinstance(environment, Mapping) else ():
            values = merged.setdefault(name, [])
            if str(value) not in values:
                values.append(str(value))
    return {name: ", ".join(sorted(values)) for name, values in merged.items()}


def _exit_code(tally: Tally, runs: Sequence[Run]) -> int:
    by_id = {run.run_id: run for run in runs}
    for run_id, error in tally.failed.items():
        run, cell = by_id[run_id], by_id[run_id].cell
        point = "" if cell.option is None else f" with {cell.option} {cell.value}"
        where = f"{cell.method} on {cell.dataset}{point}, split {run.split_seed}"
        print(f"failed: {where}, init {run.init_seed}: {error}", file=sys.stderr)
    if tally.failed:
        print(f"{counted(len(tally.failed), 'run')} failed; --retry repeats them.", file=sys.stderr)
    return 1 if tally.failed else 0


def _dataset_of(config: RunConfig) -> str:
    return str(config.data.get("dataset") or Path(config.data.get("path") or "synthetic").stem)
