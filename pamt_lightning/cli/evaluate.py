"""`pamt test`, `pamt validate` and `pamt predict`: use a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pamt_lightning.cli.choices import Choices
from pamt_lightning.errors import CheckpointError

Command = Literal["validate", "test", "predict"]
DESCRIPTIONS: dict[Command, str] = {
    "validate": "Score a checkpoint on the validation nodes.",
    "test": "Score a checkpoint on the test nodes.",
    "predict": "Write the class probabilities that a checkpoint gives to every node.",
}


def _run(command: Command, args: Sequence[str]) -> int:
    choices = Choices.read(args)
    if not choices.help and choices.ckpt_path is None:
        raise CheckpointError(
            f"`pamt {command}` needs a trained model: --ckpt_path RUN/best.ckpt "
            "(`pamt fit` prints where it is)."
        )

    from pamt_lightning.cli.configure import Configurator
    from pamt_lightning.training.checkpoint import find_checkpoint, layer_of, load_checkpoint
    from pamt_lightning.training.folds import fold_folders, predict_folds
    from pamt_lightning.training.report import print_metrics
    from pamt_lightning.training.results import write_predictions
    from pamt_lightning.training.run import evaluate

    if choices.help:
        folds, file, resolved = [], Path(), choices.resolve()
    else:
        folds = fold_folders(Path(str(choices.ckpt_path)))
        if folds and command != "predict":
            raise CheckpointError(
                f"{choices.ckpt_path} used every label for training, so none are left to test on; "
                "its results.json has an honest estimate. To score on other data, name one of its "
                f"models: {folds[0]}."
            )
        file = find_checkpoint(folds[0] if folds else str(choices.ckpt_path))
        checkpoint = load_checkpoint(file)
        if checkpoint.get("GraphDataModule", {}).get("in_memory") and not choices.names_data:
            raise CheckpointError(
                f"{file} was trained on a graph in memory: name data, --data.path."
            )
        trained = layer_of(checkpoint, with_data=not choices.names_data)
        resolved = choices.resolve(trained)
        for layer in resolved.layers:
            if layer is not trained:
                layer.content.pop("model", None)  # a trained model keeps its values
    found = Configurator(command, DESCRIPTIONS[command], _add_options).read(choices, resolved)
    if found is None:
        return 0
    config, options = found
    result: Any
    if folds:
        result, data = predict_folds(config, Path(str(choices.ckpt_path)))
    else:
        result, data = evaluate(config, file, command)
    if command == "predict":
        write_predictions(Path(options.output), data.graph, result)
        print(f"{data.graph.num_nodes:,} predictions written to {options.output}")
    else:
        print_metrics(result, config.method, data)
    return 0


run_validate = partial(_run, "validate")
run_test = partial(_run, "test")
run_predict = partial(_run, "predict")


def _add_options(parser: Any) -> None:
    trained = "The trained model: best.ckpt, or the folder of its run."
    parser.add_argument("--ckpt_path", metavar="RUN", help=trained)
    output = "`predict`: the CSV file to write."
    parser.add_argument("--output", type=str, default="predictions.csv", help=output)
