"""The command `pamt`: answers what needs no torch at once and hands the rest on."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

from pamt_lightning.errors import InputError
from pamt_lightning.version import __version__

LIGHTNING_COMMANDS = ("fit", "validate", "test", "predict")
MANY_RUNS = ("bench", "study", "tune")
COMMANDS = (*LIGHTNING_COMMANDS, *MANY_RUNS, "methods", "datasets", "benchmark")

HELP = f"""\
usage: pamt COMMAND [options]

Label the nodes of an attributed network when few labels are known and the edges lie
(PAMT: Propagation with Adaptive Mask then Training), version {__version__}.

train and use a model
  fit        train, test the best state, print a table, write results.json
  test       test a checkpoint              pamt test --ckpt_path RUN/best.ckpt
  validate   the same on the stopping set
  predict    class probabilities as CSV     pamt predict --ckpt_path RUN/best.ckpt --output p.csv

many runs
  bench      one configuration on many splits       pamt bench --config C --seeds test20
  study      methods × data sets: tables, plots     pamt study main
  tune       search for options on validation splits

methods, data and machine
  methods    list the methods that --model takes: PAMT, its variants and the baselines
  datasets   list, fetch, verify and convert data sets
  benchmark  how fast this machine is, in ratios measured side by side

examples
  pamt fit                                   a synthetic graph: nothing to download
  pamt fit --config configs/pubmed.yaml      the paper's setting on Pubmed
  pamt fit --config configs/pubmed.yaml --model GAT      another method, with its own values
  pamt fit --config configs/pubmed.yaml --data.split_seed test1 --seed_everything 1
  pamt fit --config configs/pubmed.yaml --ckpt_path last     go on after a crash
  pamt fit --data.path my_graph/             edges.csv and nodes.csv of your own
  pamt fit --print_config                    every option with its value, as YAML
  tensorboard --logdir lightning_logs        watch

`pamt COMMAND --help` lists all options, `pamt fit --model.help PAMT` those of a method.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (0 fine, 2 wrong input)."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if args[0] in ("-V", "--version"):
        print(f"pamt {__version__}")
        return 0
    try:
        return _dispatch(args[0], args[1:])
    except InputError as error:
        print(f"pamt {args[0]}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\npamt {args[0]}: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `pamt datasets | head`
        sys.stderr.close()
        return 0


def _dispatch(command: str, args: list[str]) -> int:
    if command == "methods":
        from pamt_lightning.methods.registry import run as run_methods

        return run_methods(args)
    if command == "datasets":
        from pamt_lightning.cli.datasets import run as run_datasets

        return run_datasets(args)
    if command == "benchmark":
        from pamt_lightning.benchmarks.command import run as run_benchmark

        return run_benchmark(args)
    if command in ("bench", "study"):
        from pamt_lightning.studies.command import run_bench, run_study

        return (run_bench if command == "bench" else run_study)(args)
    if command == "tune":
        from pamt_lightning.studies.tune_command import run as run_tune

        return run_tune(args)
    if command in LIGHTNING_COMMANDS:
        from pamt_lightning.cli.lightning import run as run_lightning

        return run_lightning(command, args)
    close = difflib.get_close_matches(command, COMMANDS, 1)
    hint = f"Did you mean `pamt {close[0]}`?" if close else "`pamt --help` lists the commands."
    raise InputError(f"there is no command {command!r}. {hint}")


if __name__ == "__main__":
    sys.exit(main())
