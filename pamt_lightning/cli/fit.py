"""`pamt fit`: train a method, test its best state and write results.json."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamt_lightning.cli.choices import Choices
from pamt_lightning.training.config import CONFIG
from pamt_lightning.training.layers import Layer, read_layer

DESCRIPTION = (
    "Train on a graph, keep the best state, test it, and write results.json. "
    "`--model NAME` chooses a method other than PAMT (`pamt methods` lists them); "
    "`pamt fit --model.help NAME` lists the options of a method."
)
_ROOT = "lightning_logs"


def run_fit(args: Sequence[str]) -> int:
    """Run ``pamt fit`` with the arguments that follow it."""
    choices = Choices.read(args)
    resumed = None if choices.ckpt_path in (None, "last") else Path(str(choices.ckpt_path))
    base = None if resumed is None or choices.help else _config_of(resumed)
    resolved = choices.resolve(base)

    from pamt_lightning.cli.configure import Configurator

    found = Configurator("fit", DESCRIPTION, _add_options).read(choices, resolved)
    if found is None:
        return 0

    from pamt_lightning.training.checkpoint import find_checkpoint
    from pamt_lightning.training.folds import run_folds, uses_all_labels, with_default_split
    from pamt_lightning.training.report import print_folds, print_run
    from pamt_lightning.training.run import run
    from pamt_lightning.training.stopping import LAST

    config, options = found
    root = Path(config.trainer.get("default_root_dir") or ".") / _ROOT
    named, config = config, with_default_split(config)
    if config.data.get("fold") and not named.data.get("fold"):
        print(
            "several devices train one model, on four of five parts of the labels", file=sys.stderr
        )
    if uses_all_labels(config):
        folds = run_folds(
            config,
            folder=options.run_dir or resumed,
            root=root,
            resume=None if choices.ckpt_path is None else "last",
        )
        print_folds(folds)
        return 0
    result = run(
        config,
        folder=options.run_dir,
        root=root,
        resume=choices.ckpt_path if resumed is None else find_checkpoint(resumed, LAST),
        may_relaunch=True,
    )
    if result.trainer.is_global_zero:
        print_run(result)
    return 0


def _config_of(resumed: Path) -> Layer:
    """The configuration of a run that is resumed: its config.yaml, else what the checkpoint has."""
    folder = resumed if resumed.is_dir() else resumed.parent
    if (folder / CONFIG).is_file():
        return read_layer(str(folder / CONFIG))

    from pamt_lightning.training.checkpoint import find_checkpoint, layer_of, load_checkpoint
    from pamt_lightning.training.stopping import LAST

    return layer_of(load_checkpoint(find_checkpoint(resumed, LAST)), with_data=True)


def _add_options(parser: Any) -> None:
    resume = "Resume a run: `last` (the newest run with these options), its folder or last.ckpt."
    parser.add_argument("--ckpt_path", metavar="last|RUN", help=resume)
    folder = "Folder of this run. Default: a new one below lightning_logs/."
    parser.add_argument("--run_dir", type=str | None, default=None, help=folder)
    test = "Test the best state after training."
    parser.add_argument("--test_after_fit", type=bool, default=True, help=test)
