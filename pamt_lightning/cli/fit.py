"""`pamt fit`: train a method, test its best state and write results.json."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamt_lightning.cli.choices import Choices
from pamt_lightning.training.layers import Layer, read_layer

DESCRIPTION = (
    "Train on a graph, keep the best state, test it, and write results.json. "
    "`--model NAME` chooses another method than PAMT (`pamt methods` lists them); "
    "`pamt fit --model.help NAME` lists the options of a method."
)
_ROOT = "lightning_logs"


def run_fit(args: Sequence[str]) -> int:
    """Run ``pamt fit`` with the arguments that follow it."""
    choices = Choices.read(args)
    resumed = None if choices.ckpt_path in (None, "last") else Path(str(choices.ckpt_path))
    shows = choices.shows_help or choices.help_of is not None
    base = None if resumed is None or shows else _config_of(resumed)
    resolved = choices.resolve(base)

    from pamt_lightning.cli.configure import Configurator, Request, print_model_help

    if choices.help_of is not None:
        print_model_help(resolved.model.name, resolved.model.class_path)
        return 0
    configurator = Configurator("fit", DESCRIPTION, _add_options)
    if choices.shows_help:
        configurator.cli(resolved.model.class_path).parser.print_help()
        return 0
    config, options = configurator.parse(Request(resolved, choices.words, choices.options))
    for note in resolved.notes:
        print(f"pamt fit: note: {note}", file=sys.stderr)
    if choices.print_config:
        print(config.to_yaml(), end="")
        return 0

    from pamt_lightning.training.checkpoint import find_checkpoint
    from pamt_lightning.training.report import print_run
    from pamt_lightning.training.run import run
    from pamt_lightning.training.stopping import LAST

    result = run(
        config,
        folder=None if options.run_dir is None else Path(options.run_dir),
        root=Path(config.trainer.get("default_root_dir") or ".") / _ROOT,
        resume=choices.ckpt_path if resumed is None else find_checkpoint(resumed, LAST),
        may_relaunch=True,
    )
    if result.trainer.is_global_zero:
        print_run(result)
    return 0


def _config_of(resumed: Path) -> Layer:
    """The configuration of a run that is resumed: its config.yaml, else what the checkpoint has."""
    folder = resumed if resumed.is_dir() else resumed.parent
    if (folder / "config.yaml").is_file():
        return read_layer(str(folder / "config.yaml"))

    from pamt_lightning.training.checkpoint import find_checkpoint, layer_of, load_checkpoint
    from pamt_lightning.training.stopping import LAST

    return layer_of(load_checkpoint(find_checkpoint(resumed, LAST)), with_data=True)


def _add_options(parser: Any) -> None:
    parser.add_argument(
        "--ckpt_path",
        metavar="last|RUN",
        help="Resume a run: `last` (the newest run with these options), its folder or last.ckpt.",
    )
    parser.add_argument(
        "--run_dir",
        type=str | None,
        default=None,
        help="Folder of this run. Default: a new one below lightning_logs/.",
    )
    parser.add_argument(
        "--test_after_fit", type=bool, default=True, help="Test the best state after training."
    )
