"""`pamt test`, `pamt validate` and `pamt predict`: use a trained model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamt_lightning.cli.choices import Choices
from pamt_lightning.errors import CheckpointError

DESCRIPTIONS = {
    "validate": "Score a checkpoint on the validation nodes.",
    "test": "Score a checkpoint on the test nodes.",
    "predict": "Write the class probabilities that a checkpoint gives to every node.",
}


def run_evaluate(command: str, args: Sequence[str]) -> int:
    """Run one of the three commands with the arguments that follow it."""
    choices = Choices.read(args)
    if choices.help_of is not None:
        from pamt_lightning.cli.configure import print_model_help

        model = choices.resolve().model
        print_model_help(model.name, model.class_path)
        return 0
    if not choices.shows_help and choices.ckpt_path is None:
        raise CheckpointError(
            f"`pamt {command}` needs a trained model: --ckpt_path RUN/best.ckpt "
            "(`pamt fit` prints where it is)."
        )

    from pamt_lightning.cli.configure import Configurator, Request
    from pamt_lightning.training.checkpoint import find_checkpoint, layer_of, load_checkpoint
    from pamt_lightning.training.report import print_metrics
    from pamt_lightning.training.results import write_predictions
    from pamt_lightning.training.run import evaluate, predict

    configurator = Configurator(command, DESCRIPTIONS[command], _add_options)
    if choices.shows_help:
        configurator.cli(choices.resolve().model.class_path).parser.print_help()
        return 0
    file = find_checkpoint(str(choices.ckpt_path))
    checkpoint = load_checkpoint(file)
    resolved = choices.resolve(layer_of(checkpoint, with_data=not choices.names_data))
    for layer in resolved.layers:
        if layer.source != "the checkpoint":
            layer.content.pop("model", None)  # a trained model keeps its values
    config, options = configurator.parse(Request(resolved, choices.words, choices.options))
    for note in resolved.notes:
        print(f"pamt {command}: note: {note}", file=sys.stderr)
    if choices.print_config:
        print(config.to_yaml(), end="")
    elif command == "predict":
        probs, data = predict(config, file)
        output = Path(options.output)
        write_predictions(output, data.graph, probs)
        print(f"{data.graph.num_nodes:,} predictions written to {output}")
    else:
        metrics, data = evaluate(config, file, "test" if command == "test" else "validate")
        print_metrics(metrics, config.method, data)
    return 0


def _add_options(parser: Any) -> None:
    parser.add_argument(
        "--ckpt_path", metavar="RUN", help="The trained model: best.ckpt, or the folder of its run."
    )
    parser.add_argument(
        "--output", type=str, default="predictions.csv", help="`predict`: the CSV file to write."
    )
