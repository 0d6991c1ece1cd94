"""`pamt fit | validate | test | predict`: LightningCLI with the traps closed."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ProgressBar
from pytorch_lightning.cli import LightningArgumentParser
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only

from pamt_lightning.cli.config_files import Trained, names_data, option_value, plain_arguments
from pamt_lightning.cli.parser import ParsedCLI, Parser, check_model_class, model_classes
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.methods.base import NodeClassificationModule
from pamt_lightning.training.checkpoint import (
    check_resumed_options,
    data_config,
    data_state,
    find_checkpoint,
    load_checkpoint,
    model_config,
)
from pamt_lightning.training.estimate import LongRunNote
from pamt_lightning.training.folders import (
    CONFIG,
    RESULTS,
    new_version,
    newest_with,
    run_name,
    write_whole,
)
from pamt_lightning.training.progress import EpochBar
from pamt_lightning.training.quiet import plain_errors, silence
from pamt_lightning.training.report import print_fit, print_metrics, result_record
from pamt_lightning.training.results import write_predictions, write_results
from pamt_lightning.training.stopping import BEST, LAST
from pamt_lightning.training.tensorboard import TensorBoardMonitor

# What gloo and NCCL say when a process at the other end of a connection is gone.
_LOST = re.compile(r"(closed|reset) by peer|broken pipe|timed out|remote process exited", re.I)
_RUN_FOLDER = "PAMT_RUN_FOLDER"  # tells the other processes of a run where the first one writes


class PamtCLI(ParsedCLI):
    """Builds model, data and trainer from one configuration and runs one subcommand on them."""

    model: NodeClassificationModule
    datamodule: GraphDataModule
    record: dict[str, Any]  # of a `fit`: what results.json holds

    def __init__(self, command: str, args: list[str], *, leaves_files: bool = True) -> None:
        self.command = command
        self.leaves_files = leaves_files  # without, a `fit` also prints nothing: one run of many
        self.checkpoint_path: Path | None = None
        self.checkpoint: dict[str, Any] | None = None
        self.run_folder: Path | None = None
        self.trained = self._open_checkpoint(args)
        super().__init__(
            model_class=NodeClassificationModule,
            datamodule_class=GraphDataModule,
            subclass_mode_model=True,
            seed_everything_default=0,
            save_config_callback=None,  # `fit` saves it, to the run's own folder
            auto_configure_optimizers=False,
            parser_class=Parser,
            parser_kwargs={"prog": "pamt"},
            args=[command, *args],
        )

    # Options -----------------------------------------------------------------------------------

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse ``args``, whatever ``sys.argv`` holds."""
        sections, ignored = self.sections(self.command)
        plain = plain_arguments(args[1:], sections, model_classes(), self.trained, ignored)
        check_model_class(plain.class_path)
        own: Any = self._parser(self.command)
        own.model_class = plain.class_path
        for note in plain.notes:
            print(f"pamt {self.command}: note: {note}", file=sys.stderr)
        self.config = self.parsed(parser, [self.command, *plain.args], plain.sources)

    def _parse_ckpt_path(self) -> None:
        # Lightning would let the checkpoint overrule the command line. Here it comes first
        # (`_open_checkpoint`), and what is typed wins or is refused.
        pass

    def _open_checkpoint(self, args: list[str]) -> Trained | None:
        """Open the checkpoint that is named, and say what it was trained with."""
        named = option_value(args, "--ckpt_path")
        shows = ("--help", "--print_config", "--model.help")
        if "-h" in args or any(arg.startswith(shows) for arg in args):
            return None
        if self.command == "fit":
            if named is None or named == "last":
                return None
            self.checkpoint_path = find_checkpoint(named, LAST)
            self.checkpoint = load_checkpoint(self.checkpoint_path)
            config = self.checkpoint_path.with_name(CONFIG)
            base = str(config) if config.is_file() else self._base_config()
            return Trained(base, keeps_values=False)
        if named is None:
            raise CheckpointError(
                f"`pamt {self.command}` needs a trained model: --ckpt_path RUN/best.ckpt "
                "(`pamt fit` prints where it is)."
            )
        self.checkpoint_path = find_checkpoint(named, BEST)
        self.checkpoint = load_checkpoint(self.checkpoint_path)
        return Trained(self._base_config(with_data=not names_data(args)), keeps_values=True)

    def _base_config(self, with_data: bool = True) -> str:
        assert self.checkpoint is not None
        data = data_config(self.checkpoint) if with_data else {}
        return json.dumps({"model": model_config(self.checkpoint), "data": data})

    # Building ----------------------------------------------------------------------------------

    def before_instantiate_classes(self) -> None:
        """Every run must be repeatable."""
        config = self.config[self.command]
        if config.get("seed_everything") is False:
            raise InputError(
                "`seed_everything` must be a number: without it no run can be repeated."
            )

    def instantiate_classes(self) -> None:
        """Build data, model and trainer; of errors that jsonargparse wraps, raise the inner one."""
        try:
            super().instantiate_classes()
        except ValueError as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, InputError):
                cause = cause.__cause__ or cause.__context__
            if cause is None:
                raise
            raise cause from None

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        """A trainer with a folder of its own, one progress bar and TensorBoard."""
        config = self._get(self.config_init, "trainer")
        callbacks = config.callbacks or []
        callbacks = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
        if not self.leaves_files:
            kwargs.update(callbacks=callbacks, logger=False, enable_progress_bar=False)
            return super().instantiate_trainer(**kwargs)
        bars = config.enable_progress_bar is not False
        if bars and not any(isinstance(c, ProgressBar) for c in callbacks):
            callbacks.append(EpochBar())
        callbacks += [TensorBoardMonitor(), LongRunNote()]
        kwargs["callbacks"] = callbacks
        if self.command == "fit" and not config.fast_dev_run:
            self._choose_run_folder(Path(config.default_root_dir or "."))
            os.environ[_RUN_FOLDER] = str(Path(self.run_folder or ".").absolute())
            if config.logger in (None, True):
                kwargs["logger"] = self._tensorboard_logger()
            self._get(self.config_init, "stopping").dirpath = str(self.run_folder)
        elif config.logger is None:
            kwargs["logger"] = False
        return super().instantiate_trainer(**kwargs)

    def _choose_run_folder(self, root: Path) -> None:
        given = self._get(self.config, "run_dir") or self._folder_of_first_process()
        named = self._get(self.config, "ckpt_path")
        if self.checkpoint_path is not None:
            self.run_folder = Path(given) if given else self.checkpoint_path.parent
        elif given is not None:
            self.run_folder = Path(given)
            if named == "last":
                self._resume_from(self.run_folder if (self.run_folder / LAST).is_file() else None)
            elif (self.run_folder / LAST).exists():
                raise InputError(
                    f"{given} holds a run already. Go on with it by --ckpt_path last, or choose "
                    "another --run_dir."
                )
        else:
            folder = root / "lightning_logs" / self._run_name()
            if named == "last":
                self._resume_from(newest_with(folder, LAST))
            self.run_folder = (
                self.checkpoint_path.parent if self.checkpoint_path else new_version(folder)
            )
        if self.checkpoint is not None and self.checkpoint_path is not None:
            check_resumed_options(
                self.checkpoint_path,
                self.checkpoint,
                self.model.class_path,
                self.model.hparams,
                self.datamodule.hparams,
                init_seed=int(self._get(self.config, "seed_everything")),
                max_epochs=self._get(self.config, "trainer").max_epochs,
            )
            done = self.checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"]
            if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
                print(f"Going on after epoch {done} of {self.checkpoint_path}.", file=sys.stderr)

    def _folder_of_first_process(self) -> str | None:
        """Where the first process of this run writes to, if this is another one of them."""
        if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            return None
        if _RUN_FOLDER not in os.environ:  # torchrun and SLURM start all of them at once
            raise InputError("a run of several processes needs a folder: give --run_dir.")
        return os.environ[_RUN_FOLDER]

    def _resume_from(self, folder: Path | None) -> None:
        if folder is None:
            print("No last.ckpt of this run yet: starting from the beginning.", file=sys.stderr)
            return
        self.checkpoint_path = folder / LAST
        self.checkpoint = load_checkpoint(self.checkpoint_path)

    def _run_name(self) -> str:
        data = self.datamodule
        noise = "" if data.structure_noise is None else f"_noise{data.structure_noise}"
        if data.structure_noise is not None:
            noise += f"_seed{data.noise_seed}"
        split = "given" if data.split_name == "given" else str(data.split_seed)
        seed = int(self._get(self.config, "seed_everything"))
        return run_name(data.dataset_name, self.model.method, split, seed, noise)

    def _tensorboard_logger(self) -> TensorBoardLogger:
        assert self.run_folder is not None
        # Epochs after the checkpoint were logged by the killed run and will be logged again.
        purge = None if self.checkpoint is None else int(self.checkpoint["epoch"]) + 1
        return TensorBoardLogger(
            save_dir=self.run_folder.parent,
            name="",
            version=self.run_folder.name,
            default_hp_metric=False,
            purge_step=purge,
        )

    # Subcommands -------------------------------------------------------------------------------

    def fit(self, model: Any, datamodule: Any, **kwargs: Any) -> None:
        """Train, test the kept state, and leave results.json and a table behind."""
        kwargs["ckpt_path"] = self.checkpoint_path
        kwargs["weights_only"] = True
        stopping = self._get(self.config_init, "stopping")
        if self.checkpoint is None:
            self._save_config()
        try:
            self.trainer.fit(model, datamodule=datamodule, **kwargs)
        except SystemExit:  # Lightning's answer to Ctrl-C
            print(f"\nInterrupted. {self._how_to_go_on()}", file=sys.stderr)
            raise SystemExit(130) from None
        except RuntimeError as error:
            if self.trainer.world_size == 1 or not _LOST.search(str(error)):
                raise
            raise InputError(
                f"another process of this run has ended. {self._how_to_go_on()}"
            ) from None
        if not stopping.best_state and not self.trainer.fast_dev_run:  # type: ignore[attr-defined]
            raise InputError("nothing was trained: `trainer.max_epochs` allows no epoch.")
        self._save_config()
        metrics: dict[str, float] = {}
        has_test = datamodule.split is not None and len(datamodule.split.test) > 0
        if self._get(self.config, "test_after_fit") and has_test:
            tested = self.trainer.test(
                model, datamodule=datamodule, ckpt_path=self._best_file(), verbose=False
            )
            metrics = dict(tested[0])
        self.record = result_record(
            self.trainer,
            model,
            datamodule,
            stopping,
            init_seed=int(self._get(self.config, "seed_everything")),
            test_metrics=metrics,
            config=json.loads(self.parser.dump(self.config, format="json"))[self.command],
        )
        if self.run_folder is not None and self.trainer.is_global_zero:
            write_results(self.run_folder / RESULTS, self.record)
        if self.trainer.is_global_zero and self.leaves_files:
            board = isinstance(self.trainer.logger, TensorBoardLogger)
            print_fit(self.record, datamodule, self.run_folder, board)

    def _how_to_go_on(self) -> str:
        if self.run_folder is not None and (self.run_folder / LAST).is_file():
            return f"Go on with: pamt fit --ckpt_path {self.run_folder}"
        return "Nothing was saved yet."

    def _save_config(self) -> None:
        """Save the configuration for a run like this one: anew, in a folder of its own."""
        if self.run_folder is None or not self.trainer.is_global_zero:
            return
        config = self.config[self.command].clone()
        for name in ("ckpt_path", "run_dir", "config"):
            config.pop(name, None)
        text = self._parser(self.command).dump(config, skip_none=False)
        write_whole(self.run_folder / CONFIG, lambda file: print(text, end="", file=file))

    def _best_file(self) -> Path | None:
        file = None if self.run_folder is None else self.run_folder / BEST
        return file if file is not None and file.is_file() else None

    def validate(self, model: Any, datamodule: Any, **kwargs: Any) -> None:
        """Metrics of a checkpoint on the stopping set."""
        self._fit_data_to_checkpoint()
        kwargs.update(ckpt_path=self.checkpoint_path, verbose=False, weights_only=True)
        metrics = self.trainer.validate(model, datamodule=datamodule, **kwargs)[0]
        print_metrics(metrics, model.method, datamodule)

    def test(self, model: Any, datamodule: Any, **kwargs: Any) -> None:
        """Metrics of a checkpoint on the test set."""
        self._fit_data_to_checkpoint()
        kwargs.update(ckpt_path=self.checkpoint_path, verbose=False, weights_only=True)
        metrics = self.trainer.test(model, datamodule=datamodule, **kwargs)[0]
        print_metrics(metrics, model.method, datamodule)

    def predict(self, model: Any, datamodule: Any, **kwargs: Any) -> None:
        """Write the class probabilities of every node."""
        self._fit_data_to_checkpoint()
        if model.predicts_from_labels:
            datamodule.setup("test")  # a prediction makes no split of its own
        kwargs.update(ckpt_path=self.checkpoint_path, return_predictions=True, weights_only=True)
        predictions: Any = self.trainer.predict(model, datamodule=datamodule, **kwargs)
        (probs,) = predictions
        output = Path(self._get(self.config, "output"))
        write_predictions(output, datamodule.graph, probs)
        print(f"{datamodule.graph.num_nodes:,} predictions written to {output}")

    def _fit_data_to_checkpoint(self) -> None:
        """Number classes as the model does; refuse data with other attributes."""
        assert self.checkpoint is not None
        if state := data_state(self.checkpoint):
            self.datamodule.expect_classes(state["class_names"])
            self.datamodule.expect_features(state)
        if self.datamodule.num_features != self.model.num_features:
            raise CheckpointError(
                f"{self.checkpoint_path} was trained on {self.model.num_features} attributes, "
                f"{self.datamodule.dataset_name} has {self.datamodule.num_features}."
            )


def run(command: str, args: list[str]) -> int:
    """Run one subcommand."""
    silence()
    with plain_errors():
        PamtCLI(command, args)
    return 0
