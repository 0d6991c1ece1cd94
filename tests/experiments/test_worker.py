import math
from types import SimpleNamespace
from typing import Any

import pytest

from pamt_lightning.experiments import worker


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a `fit` that does nothing was called with."""
    called: list[Any] = []
    record = {
        **{"val_acc": 0.5, "val_loss": math.inf, "epochs": 3, "best_epoch": 2, "seconds": 1.5},
        **{"structure_noise": None, "tested_on": "test nodes", "data_hashes": {}},
        **{"test_metrics": {"test_acc": 0.25, "test_ece": math.nan}, "environment": {"a": 1}},
    }

    def fit(command: str, args: list[str], *, leaves_files: bool) -> Any:
        called.extend([command, args, leaves_files])
        return SimpleNamespace(record=record, model=None, datamodule=None)

    monkeypatch.setattr("pamt_lightning.cli.PamtCLI", fit)
    monkeypatch.setattr(
        "pamt_lightning.experiments.edges.bad_edge_metrics", lambda *_: {"mask_auc_original": 0.75}
    )
    return called


@pytest.mark.usefixtures("typed")
def test_figures_are_finite_numbers() -> None:
    metrics, facts = worker.fit([])
    assert metrics == {
        **{"val_acc": 0.5, "epochs": 3.0, "best_epoch": 2.0, "seconds": 1.5},
        **{"test_acc": 0.25, "mask_auc_original": 0.75},
    }
    assert facts == {"tested_on": "test nodes", "data_hashes": {}, "environment": {"a": 1}}


def test_every_run_is_tested_and_leaves_no_files(typed: list[Any]) -> None:
    worker.fit(["--model", "GAT"])
    assert typed == ["fit", ["--model", "GAT", "--test_after_fit", "true"], False]
