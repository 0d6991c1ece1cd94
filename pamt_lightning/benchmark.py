"""`pamt benchmark`: what the Trainer costs beside a plain loop, both measured in one run."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from pamt_lightning.callbacks import BestStopping, EpochBar, TensorBoardMonitor
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.modules.pamt import PAMTModule
from pamt_lightning.modules.prepared import Prepared
from pamt_lightning.quiet import TRAINER_DEFAULTS, silence
from pamt_lightning.results import environment

_DESCRIPTION = """\
Time one epoch (optimiser step, validation with propagated inference, stopping) of PAMT inside
`pamt fit`'s Trainer against a plain Python loop over the same functions. Both alternate in one
process; medians over the rounds are printed, and their ratio. Ratios can be compared between
machines, milliseconds cannot.
"""


def run(argv: list[str]) -> int:
    """Measure, print and, if asked, write the figures."""
    parser = argparse.ArgumentParser("pamt benchmark", description=_DESCRIPTION)
    parser.add_argument("--dataset", default="synthetic", help="data set (default: synthetic)")
    parser.add_argument("--root", action="append", default=[], help="folder with data files")
    parser.add_argument("--hidden_dim", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--epochs", type=int, default=200, help="epochs per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None, help="threads of torch")
    parser.add_argument("--output", type=Path, default=None, help="write the figures as JSON")
    args = parser.parse_args(argv)
    for name in ("hidden_dim", "epochs", "rounds", "threads"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            parser.error(f"--{name} must be 1 or more, got {getattr(args, name)}")
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    data = GraphDataModule(dataset=args.dataset, root=args.root)
    data.setup("fit")
    options = {"hidden_dim": args.hidden_dim, "dropout": args.dropout}
    loop, trainer = [], []
    for _ in tqdm(range(args.rounds), "rounds", leave=False, disable=None):
        loop.append(_plain_loop(data, args.epochs, options))
        trainer.append(_trainer(data, args.epochs, options))
    plain_ms, trainer_ms = (1e3 * statistics.median(t) for t in (loop, trainer))
    ratios = [t / p for t, p in zip(trainer, loop, strict=True)]
    figures = {
        "dataset": data.dataset_name,
        **options,
        "epochs": args.epochs,
        "rounds": args.rounds,
        "plain_loop_ms": round(plain_ms, 3),
        "trainer_ms": round(trainer_ms, 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
        "environment": environment(),
    }
    print(
        f"{data.dataset_name}, hidden {args.hidden_dim}, dropout {args.dropout}, "
        f"{torch.get_num_threads()} thread(s), median of {args.rounds} rounds of {args.epochs} "
        f"epochs\n"
        f"  plain loop   {plain_ms:8.2f} ms per epoch\n"
        f"  Trainer      {trainer_ms:8.2f} ms per epoch\n"
        f"  ratio        {figures['ratio']:8.2f}      ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    if args.output is not None:
        args.output.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    return 0


def _new_model(data: GraphDataModule, options: dict[str, Any]) -> PAMTModule:
    torch.manual_seed(0)
    return PAMTModule(data.num_features, data.num_classes, pretrain_epochs=0, **options)


def _plain_loop(data: GraphDataModule, epochs: int, options: dict[str, Any]) -> float:
    """Seconds per epoch of the loop one would write by hand, refresh and stopping included."""
    model = _new_model(data, options)
    prepared = model.prepare(data.graph)
    model.refresh(prepared, epoch=0)
    optimizer, stopping = model.configure_optimizers(), BestStopping(patience=epochs + 1)
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        if epoch % model.refresh_interval == 0:
            model.refresh(prepared, epoch)
        model.train()
        optimizer.zero_grad()
        model.training_loss(prepared).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        model.eval()
        acc, loss = _validate(model, prepared)
        if stopping.update(acc, loss):
            stopping.best_state = {k: v.clone() for k, v in model.state_dict().items()}
    return (time.perf_counter() - start) / epochs


@torch.no_grad()
def _validate(model: PAMTModule, data: Prepared) -> tuple[float, float]:
    prediction = model.predict_nodes(data)
    index, target = data.graph.val_index, data.graph.y
    right = (prediction.probs[index].argmax(1) == target[index]).float().mean()
    return float(right), float(model.validation_loss(data, prediction))


class _Clock(EpochBar):
    """The epoch bar, and the time from the first epoch's start to the last one's end."""

    start = end = 0.0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock once everything is set up."""
        super().on_train_start(trainer, pl_module)
        self.start = time.perf_counter()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop it before the checkpoints of the end are written."""
        self.end = time.perf_counter()
        super().on_train_end(trainer, pl_module)


def _trainer(data: GraphDataModule, epochs: int, options: dict[str, Any]) -> float:
    """Seconds per epoch under the Trainer, with everything that `pamt fit` switches on."""
    from pytorch_lightning import Trainer
    from pytorch_lightning.loggers import TensorBoardLogger

    silence()
    clock = _Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            **{**TRAINER_DEFAULTS, "max_epochs": epochs},
            accelerator="cpu",
            logger=TensorBoardLogger(folder, name="", default_hp_metric=False),
            callbacks=[clock, TensorBoardMonitor(), BestStopping(patience=epochs + 1)],
        )
        trainer.fit(_new_model(data, options), datamodule=data)
    return (clock.end - clock.start) / epochs
