"""The command `pamt`: dispatches to the module of each command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from pamt_lightning.errors import InputError, did_you_mean
from pamt_lightning.version import __version__

# The function of each command, imported on demand: most need neither torch nor each other.
COMMANDS = {
    "fit": "fit.run_fit",
    "validate": "evaluate.run_validate",
    "test": "evaluate.run_test",
    "predict": "evaluate.run_predict",
    "bench": "study.run_bench",
    "study": "study.run_study",
    "tune": "tune.run_tune",
    "methods": "methods.run_methods",
    "datasets": "datasets.run",
    "speed": "speed.run_speed",
}
_OLD_NAMES = {"benchmark": "speed"}  # of version 0.1

HELP = f"""\
usage: pamt COMMAND [options]

Classify the nodes of an attributed graph when few labels are known and many edges are unreliable
(PAMT: Propagation with Adaptive Mask then Training), version {__version__}.

train and use a model
  fit        train, test the best state, print a table, write results.json
  test       test a checkpoint              pamt test --ckpt_path RUN/best.ckpt
  validate   the same on the validation nodes
  predict    class probabilities as CSV     pamt predict --ckpt_path RUN/best.ckpt --output p.csv

many runs
  bench      one configuration on many splits       pamt bench --config C --seeds test20
  study      methods × data sets: tables, plots     pamt study main
  tune       search for options on validation splits

methods, data and machine
  methods    list the methods that --model takes: PAMT, its variants and the baselines
  datasets   list, fetch, verify and convert data sets
  speed      how fast this machine is, in ratios measured side by side

examples
  pamt fit                                   a synthetic graph: nothing to download
  pamt fit --config configs/pubmed.yaml      the paper's setting on Pubmed
  pamt fit --config configs/pubmed.yaml --model GAT      another method, with its own values
  pamt fit --config configs/pubmed.yaml --data.split_seed test1 --seed_everything 1
  pamt fit --config configs/pubmed.yaml --ckpt_path last     resume after a crash
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
        command = _OLD_NAMES.get(args[0], args[0])
        if command not in COMMANDS:
            hint = did_you_mean(command, COMMANDS) or " `pamt --help` lists the commands."
            raise InputError(f"there is no command {command!r}.{hint}")
        module, function = COMMANDS[command].split(".")
        run = getattr(import_module(f"pamt_lightning.cli.{module}"), function)
        return int(run(args[1:]))
    except InputError as error:
        print(f"pamt {args[0]}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        print(f"\npamt {args[0]}: {str(interrupt) or 'interrupted.'}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `pamt datasets | head`
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
