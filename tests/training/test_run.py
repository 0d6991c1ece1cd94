"""`run` from Python: the result, the files, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import CSVLogger

from pamt_lightning import InputError, RunConfig, RunResult, __version__, run
from pamt_lightning.methods.registry import METHODS
from pamt_lightning.training.config import import_class
from tests.small_run import small_config, write_own_graph

pytestmark = pytest.mark.usefixtures("elsewhere")


def test_a_run_without_a_folder_writes_nothing(tmp_path: Path) -> None:
    result = run(small_config(), quiet=True)
    assert isinstance(result, RunResult)
    assert result.test_acc is not None
    assert 0 < result.test_acc <= 1
    assert result.val_acc == result.record["val_acc"]
    assert result.folder is None
    assert f"test_acc={result.test_acc:.4f}" in repr(result)
    assert result.datamodule.graph.num_nodes == 240
    assert list(tmp_path.iterdir()) == []
    again = run(small_config(), quiet=True)
    assert again.record["test_metrics"] == result.record["test_metrics"]


def test_the_record_holds_what_a_comparison_needs(tmp_path: Path) -> None:
    config = small_config(hidden_dim=8).with_options({"seed_everything": 3})
    result = run(config, quiet=True, root=tmp_path)
    record, folder = result.record, result.folder
    assert folder == tmp_path / "synthetic/PAMT/split2144199730_init3/version_0"
    files = {path.name for path in folder.iterdir() if not path.name.startswith("events")}
    assert files == {"best.ckpt", "last.ckpt", "config.yaml", "hparams.yaml", "results.json"}
    names = ("method", "dataset", "split", "split_seed", "init_seed", "tested_on", "noise_seed")
    values = ("PAMT", "synthetic", "random", 2144199730, 3, "test nodes", None)
    assert tuple(record[name] for name in names) == values
    assert record["epochs"] == 4
    assert 1 <= record["best_epoch"] <= 4
    assert record["test_metrics"]["test_acc"] == record["test_acc"]
    assert record["seconds"] > 0
    environment = record["environment"]
    assert environment["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert (environment["pamt-lightning"], environment["threads"]) == (__version__, 1)
    assert record["sizes"]["train"] == 15
    assert record["data_hashes"] == {}
    assert RunConfig.from_dict(record["config"]) == config.complete()
    written = json.loads((folder / "results.json").read_text())
    assert written == json.loads(json.dumps(record))


def test_a_split_without_test_nodes_is_trained_and_not_tested(tmp_path: Path) -> None:
    write_own_graph(tmp_path / "mine")
    (tmp_path / "split").mkdir()
    for part, nodes in (("train", range(8)), ("val", range(8, 16)), ("test", range(0))):
        (tmp_path / "split" / f"{part}.txt").write_text("".join(f"n{i}\n" for i in nodes))
    data = {"path": "mine", "split_path": "split"}
    result = run(RunConfig.create("MLP", data=data, trainer={"max_epochs": 3}), quiet=True)
    assert result.test_acc is None
    assert "not tested" in repr(result)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"model.lr": -1}, ("`lr`", "-1")),
        ({"model.lr": 1e30}, ("diverged",)),
        ({"data.path": "nowhere"}, ("nowhere",)),
        ({"trainer.max_epochs": 0}, ("nothing was trained", "max_epochs")),
        ({"trainer.limit_val_batches": 0}, ("validat",)),
        ({"trainer.precision": "bf16-mixed"}, ("precision", "bf16-mixed")),
        ({"trainer.accelerator": "gpuu"}, ("trainer", "gpuu")),
        ({"trainer.no_such_option": 1}, ("trainer", "no_such_option")),
        ({"trainer.enable_checkpointing": False}, ("enable_checkpointing",)),
        (
            {"trainer.devices": 2, "trainer.accelerator": "cpu", "trainer.strategy": "ddp"},
            ("pamt fit --config", "--trainer.devices 2"),
        ),
    ],
)
def test_what_is_wrong_is_an_input_error_that_names_it(
    options: dict[str, Any], facts: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as error:
        run(small_config().with_options(options), quiet=True)
    assert all(fact in str(error.value) for fact in facts), error.value
    assert "\n" not in str(error.value)


def test_a_trial_run_leaves_no_folder(tmp_path: Path) -> None:
    config = small_config().with_options({"trainer.fast_dev_run": True})
    result = run(config, quiet=True, root=tmp_path)
    assert result.record["epochs"] == 1
    assert result.folder is None
    assert list(tmp_path.iterdir()) == []


def test_a_logger_and_callbacks_by_class(tmp_path: Path) -> None:
    logger = {"class_path": "pytorch_lightning.loggers.CSVLogger", "init_args": {"save_dir": "l"}}
    callback = {"class_path": f"{__name__}.Counter", "init_args": {"start": 10}}
    options = {"trainer.logger": logger, "trainer.callbacks": [callback]}
    result = run(small_config(log_every_n_epochs=1).with_options(options), quiet=True, folder="r")
    assert isinstance(result.trainer.logger, CSVLogger)
    counters = [c for c in result.trainer.callbacks if isinstance(c, Counter)]  # type: ignore[attr-defined]
    assert [counter.count for counter in counters] == [14]
    assert "val_acc" in next((tmp_path / "l").rglob("metrics.csv")).read_text()
    assert not list((tmp_path / "r").glob("events*"))


class Counter(Callback):
    def __init__(self, start: int) -> None:
        super().__init__()
        self.count = start

    def on_train_epoch_end(self, *_: Any) -> None:
        self.count += 1


OWN = """
from pamt_lightning import PAMTModule

class OwnModule(PAMTModule):
    def __init__(self, num_features, num_classes, own_option=3, **options):
        super().__init__(num_features, num_classes, **options)
        self.own_option = own_option
"""


def test_a_class_from_outside_the_package_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_methods.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    config = small_config("own_methods.OwnModule", own_option=5, hidden_dim=4)
    result = run(config, quiet=True, folder="r")
    assert type(result.model) is import_class("own_methods.OwnModule")
    assert getattr(result.model, "own_option") == 5  # noqa: B009
    assert result.model.hparams["hidden_dim"] == 4
    assert result.record["method"] == "Own"
    resumed = run(
        config.with_options({"trainer.max_epochs": 5}), quiet=True, folder="r", resume="last"
    )
    assert resumed.record["epochs"] == 5
    monkeypatch.delitem(sys.modules, "own_methods")


@pytest.mark.slow
@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_it_learns_on_the_synthetic_graph_as_shipped(name: str) -> None:
    result = run(RunConfig.create(name), quiet=True)
    least = {"MLP": 0.15, "LabelPropagation": 0.4}.get(name, 0.5)
    assert result.test_acc is not None
    assert result.test_acc > 1 / 6 + least  # six classes of about one size


def test_resuming_needs_a_run_to_resume(tmp_path: Path) -> None:
    config = RunConfig.create("MLP", data={"dataset": "synthetic"})
    with pytest.raises(InputError, match="folder"):
        run(config, resume="last")
    with pytest.raises(InputError, match="nowhere"):
        run(config, resume=tmp_path / "nowhere.ckpt")
