"""`pamt bench` and `pamt study`: many runs, and what they come to."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamt_lightning.cli.config_files import option_value
from pamt_lightning.errors import InputError
from pamt_lightning.methods.registry import find_method
from pamt_lightning.plots import plots_available
from pamt_lightning.studies.fingerprint import digest, what_matters
from pamt_lightning.studies.options import add_common, command_parser, refuse
from pamt_lightning.studies.outcome import Cell
from pamt_lightning.studies.report.reports import (
    PAGE,
    TABLES,
    Finished,
    finished_ids,
    write_reports,
    write_summary,
)
from pamt_lightning.studies.report.wording import counted
from pamt_lightning.studies.runner import Runner, Tally, check_jobs
from pamt_lightning.studies.seeds import split_seeds
from pamt_lightning.studies.store import RUNS, Store
from pamt_lightning.studies.study import Study
from pamt_lightning.studies.study_files import check_inits, read_study, studies, told_of

FOLDER = "lightning_logs/studies"

_STUDY_EPILOG = """\
examples:
  pamt study main                                      every method on every data set
  pamt study noise --datasets cora_ml --methods PAMT,PTA --seeds test3
  pamt study my_study.yaml --jobs 2                    a study of your own
  pamt study main --report                             tables from what is done so far

Runs are spread over processes and kept in FOLDER/runs.jsonl. The same command goes on where an
earlier one was stopped, by Ctrl-C, a kill or a power cut; a finished run is never done again, and
several commands may work on one folder. A run counts as the same only if its configuration, its
data and the code that computes it are the same.
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
    about = "Run a study: data sets × methods × splits."
    parser = command_parser("pamt study", about, _STUDY_EPILOG)
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
        "--any-code",
        action="store_true",
        help="with --report: where this version of the code has not done a run, take that of "
        "another one; the report says how many",
    )
    parser.add_argument(
        "--summary", metavar="FILE", help="also one Markdown file with the tables of all studies"
    )
    add_common(parser, seeds=None, folder=FOLDER)
    options = parser.parse_args(argv)
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
    for study in chosen:
        named = (*study.options, *study.split_options, *(sweep.option for sweep in study.sweeps))
        refuse(study.source, [f"--{name}" for name in named])
    _check_names(chosen)
    folder = Path(options.folder or FOLDER)
    if options.any_code and not options.report:
        raise InputError("--any-code goes with --report: what is run is run by this code.")
    if options.report and not (folder / RUNS).is_file():
        raise InputError(f"there is nothing to report on in {folder}: it has no {RUNS}.")
    # A report needs no cores: it may be about runs of a bigger machine.
    jobs = 0 if options.report else check_jobs(options.jobs, options.threads)
    runs = _expanded(chosen, options.threads)
    store = Store(folder)
    tally = Tally()
    if not options.report:
        tally = _run_all([run for part in runs for run in part], store, jobs, options)
    finished = [
        Finished(study, part, _report(study, part, store, folder / study.name, options.any_code))
        for study, part in zip(chosen, runs, strict=True)
    ]
    for told in store.damaged() if options.report else ():  # else they were done again
        print(told, file=sys.stderr)
    if options.summary:
        command = shlex.join(["pamt", "study", *argv])
        write_summary(Path(options.summary), finished, store, command, any_code=options.any_code)
        print(options.summary)
    return _exit_code(tally, [run for part in runs for run in part])


def run_bench(argv: Sequence[str]) -> int:
    """Run ``pamt bench`` with the arguments that follow it."""
    parser = command_parser(
        "pamt bench",
        "One configuration on many splits: a report with mean, deviation and interval.",
        _BENCH_EPILOG,
    )
    add_common(parser, seeds="test20", folder=FOLDER)
    options, rest = parser.parse_known_args(argv)
    refuse("pamt bench", rest)
    jobs = check_jobs(options.jobs, options.threads)

    from pamt_lightning.cli.fit_parser import FitParser
    from pamt_lightning.studies.expand import expand_cells

    configure = FitParser().configuration
    config = configure(rest)
    cell = Cell(_dataset_of(config), _method_of(config, rest))
    study = Study(
        name=f"bench_{cell.dataset}_{cell.method}_{digest(what_matters(config))[:8]}",
        title=f"{cell.method} on {cell.dataset}",
        description=shlex.join(["pamt", "bench", *argv]),
        datasets=(cell.dataset,),
        methods=(cell.method,),
        splits=split_seeds(options.seeds),
        inits=tuple(range(check_inits(1 if options.inits is None else options.inits))),
        reference=cell.method,
    )
    runs = expand_cells([(cell, rest)], study, configure, options.threads)
    folder = Path(options.folder or FOLDER)
    store = Store(folder)
    tally = _run_all(runs, store, jobs, options)
    _report(study, runs, store, folder / study.name)
    return _exit_code(tally, runs)


def _list(value: str | None) -> list[str] | None:
    return None if value is None else [part for part in value.split(",") if part]


def _check_names(chosen: Sequence[Study]) -> None:
    """Refuse studies that would write into one folder."""
    names = [study.name for study in chosen]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two of the studies are named {name!r}, so their reports would lie in one folder: "
                "rename a file, or run one after the other with another --folder."
            )


def _expanded(chosen: Sequence[Study], threads: int) -> list[list[Any]]:
    from pamt_lightning.cli.fit_parser import FitParser
    from pamt_lightning.studies.expand import expand

    configure = FitParser().configuration
    runs = []
    for study in chosen:
        with told_of(study.source):
            runs.append(expand(study, configure, threads))
    return runs


def _run_all(runs: Sequence[Any], store: Store, jobs: int, options: Any) -> Tally:
    with Runner(store, jobs, options.threads) as runner:
        try:
            return runner.run(runs, retry=options.retry)
        except KeyboardInterrupt:
            done = len(finished_ids(runs, store.rows()))
            total = len({run.run_id for run in runs})
            print(
                f"\nInterrupted: {done} of {total} runs are done. The same command goes on.",
                file=sys.stderr,
            )
            raise SystemExit(130) from None


def _report(
    study: Study, runs: Sequence[Any], store: Store, folder: Path, any_code: bool = False
) -> str:
    text = write_reports(study, runs, store, folder, any_code=any_code)
    shown = re.sub(r"^!\[.*\n\n\*.*\n\n", "", text, flags=re.MULTILINE)  # no pictures here
    print(f"{shown}\n{folder / TABLES}\n{folder / PAGE}")
    if not plots_available():
        print(f"no figures were drawn in {folder}: pip install 'pamt-lightning[plots]'")
    return text


def _exit_code(tally: Tally, runs: Sequence[Any]) -> int:
    by_id = {run.run_id: run for run in runs}
    for run_id, error in tally.failed.items():
        run, cell = by_id[run_id], by_id[run_id].cell
        point = "" if cell.option is None else f" with {cell.option} {cell.value}"
        where = f"{cell.method} on {cell.dataset}{point}, split {run.split_seed}"
        print(f"failed: {where}, init {run.init_seed}: {error}", file=sys.stderr)
    if tally.failed:
        them = "it" if len(tally.failed) == 1 else "them"
        failed = counted(len(tally.failed), "run")
        print(f"{failed} failed; --retry tries {them} again.", file=sys.stderr)
    return 1 if tally.failed else 0


def _dataset_of(config: dict[str, Any]) -> str:
    data = config["data"]
    return str(data.get("dataset") or Path(data.get("path") or "synthetic").stem)


def _method_of(config: dict[str, Any], args: list[str]) -> str:
    method = find_method(option_value(args, "--model") or "")
    if method is not None:
        return method.name
    return str(config["model"]["class_path"]).rpartition(".")[2].removesuffix("Module")
