import importlib
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pamt_lightning.studies import fingerprint, worker
from pamt_lightning.studies.store import Store


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a `fit` that does nothing was called with."""
    called: list[Any] = []
    record = {
        **{"val_acc": 0.5, "val_loss": math.inf, "epochs": 3, "best_epoch": 2, "seconds": 1.5},
        **{"structure_noise": None, "tested_on": "test nodes", "data_hashes": {}},
        **{"test_metrics": {"test_acc": 0.25, "test_ece": math.nan}, "environment": {"a": 1}},
        **{"config": {"data": {}}, "inference": None},
    }

    def fit(command: str, args: list[str], *, leaves_files: bool) -> Any:
        called.extend([command, args, leaves_files])
        return SimpleNamespace(record=record, model=None, datamodule=None)

    monkeypatch.setattr("pamt_lightning.cli.lightning.PamtCLI", fit)
    monkeypatch.setattr(
        "pamt_lightning.studies.edges.bad_edge_metrics", lambda *_: {"mask_auc_original": 0.75}
    )
    return called


@pytest.mark.usefixtures("typed")
def test_figures_are_finite_numbers() -> None:
    metrics, facts = worker.fit([])
    assert metrics == {
        **{"val_acc": 0.5, "epochs": 3.0, "best_epoch": 2.0, "seconds": 1.5},
        **{"test_acc": 0.25, "mask_auc_original": 0.75},
    }
    shared = {"environment": {"a": 1}, "config": {"data": {}}, "inference": None}
    assert facts == {"tested_on": "test nodes", "data_hashes": {}, **shared}


def test_every_run_is_tested_and_leaves_no_files(typed: list[Any]) -> None:
    worker.fit(["--model", "GAT"])
    assert typed == ["fit", ["--model", "GAT", "--test_after_fit", "true"], False]


# What was stopped ---------------------------------------------------------------------------------


class LeftError(Exception):
    """The process would have ended."""


def job(**config: Any) -> dict[str, Any]:
    return {"id": "a", "args": [], "config": {"model": {"class_path": "x"}, **config}}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    def leave(code: int) -> None:
        raise LeftError(code)

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(worker, "is_current", lambda config: True)
    return Store(tmp_path / "results")


@pytest.mark.parametrize(
    "stop",
    [SystemExit(130), SystemExit(), SystemExit(1), SystemExit(2), KeyboardInterrupt()],
    ids=repr,
)
def test_what_is_stopped_from_outside_ends_the_process_and_leaves_no_row(
    stop: BaseException, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(args: list[str]) -> Any:
        raise stop

    monkeypatch.setattr(worker, "fit", fit)
    with pytest.raises(LeftError, match=r"^130$"):
        worker._do(job(), store)
    assert store.rows() == {}


def test_a_wrong_option_is_recorded(store: Store) -> None:
    assert worker._do(job() | {"args": ["--model.lrr", "1"]}, store)["status"] == "failed"
    assert store.rows()["a"]["error"] == "Option 'lrr' is not accepted. Did you mean 'lr'?"


def test_a_run_of_another_configuration_than_meant_is_not_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(args: list[str]) -> Any:
        model = {"class_path": "x", "init_args": {"lr": 0.5}}
        return {"test_acc": 0.5}, {"environment": {}, "config": {"model": model}}

    monkeypatch.setattr(worker, "fit", fit)
    answer = worker._do(job(model={"class_path": "x", "init_args": {"lr": 0.1}}), store)
    assert answer["status"] == "stale"
    assert "config files or the data have changed" in answer["error"]
    assert store.rows() == {}
    meant = job(model={"class_path": "x", "init_args": {"lr": 0.1}})
    answer = worker._do(meant | {"split_options": ["model.lr"]}, store)
    assert answer["status"] == "done"
    assert "split_options" not in store.rows()["a"]


# Which code is loaded -----------------------------------------------------------------------------


@pytest.fixture
def _nothing_read() -> Iterator[None]:
    """As in a new process: no source has been read."""
    for function in (fingerprint.code_version, fingerprint._tree):
        function.cache_clear()
    yield
    for function in (fingerprint.code_version, fingerprint._tree):
        function.cache_clear()


@pytest.mark.usefixtures("_nothing_read")
def test_a_run_of_other_code_is_not_done_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_up_model.py").write_text("class Mine: alpha = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(worker, "fit", lambda args: pytest.fail("it was run"))
    model = {"class_path": "made_up_model.Mine"}
    store = Store(tmp_path / "results")
    answer = worker._do(job(model=model, code="another"), store)
    assert answer["status"] == "stale"
    assert "start it again" in answer["error"]
    assert [path.name for path in store.folder.iterdir()] == [".claims"]


@pytest.mark.usefixtures("_nothing_read")
def test_what_counts_is_the_code_that_is_loaded_not_what_has_become_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "changing_model.py"
    monkeypatch.syspath_prepend(tmp_path)
    config = {"model": {"class_path": "changing_model.Mine"}, "code": "another"}
    file.write_text("class Mine: alpha = 1\n")
    assert not worker.is_current(config)  # imported and read
    config["code"] = fingerprint.code_version("changing_model.Mine")
    file.write_text("class Mine: alpha = 2\n")
    assert worker.is_current(config)


@pytest.mark.usefixtures("_nothing_read")
def test_all_that_runs_go_through_is_loaded_and_read_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = "pamt_lightning.data.published.citeseer_order"  # imported when Citeseer is read, and not before
    importlib.import_module(late)
    monkeypatch.delitem(sys.modules, late)
    worker.load()
    assert late in sys.modules

    def changed(module: str) -> str:
        raise AssertionError(f"{module} is read now")

    monkeypatch.setattr(fingerprint, "_source", changed)
    for name in ("PAMTPlusModule", "GATModule", "LabelPropagationModule"):
        config = {"model": {"class_path": f"pamt_lightning.{name}"}, "code": "another"}
        assert not worker.is_current(config)
