from __future__ import annotations

from pathlib import Path

import pytest

from pamt_lightning.methods.registry import find_method
from pamt_lightning.studies.paper import ACCURACY, DATASETS, paper_figure


@pytest.mark.parametrize(
    ("dataset", "method", "figure"),
    [
        ("cora_ml", "GCN", (82.90, 0.41)),
        ("citeseer", "GAT", (72.79, 0.24)),
        ("pubmed", "SGC", (70.68, 1.50)),
        ("ms_academic", "RobustGCN", (92.61, 0.08)),
        ("cora_ml", "PAMT_0", (85.52, 0.34)),
        ("citeseer", "PAMT_r", (69.01, 0.63)),
        ("pubmed", "PAMT_1", (79.12, 0.29)),
        ("ms_academic", "PAMT", (92.92, 0.14)),
    ],
)
def test_an_accuracy_of_the_paper_is_found(
    dataset: str, method: str, figure: tuple[float, float]
) -> None:
    assert paper_figure(dataset, method) == figure


def test_the_paper_has_no_accuracy_of_other_methods_and_data_sets() -> None:
    assert paper_figure("cora_ml", "MLP") is None
    assert paper_figure("synthetic", "PAMT") is None


def test_the_means_of_each_column_add_up() -> None:
    # Taken from the columns of the paper: a slip in one digit shows.
    sums = [round(sum(row[column][0] for row in ACCURACY.values()), 2) for column in range(4)]
    assert sums == [925.19, 821.47, 856.04, 1013.41]
    spreads = [round(sum(row[column][1] for row in ACCURACY.values()), 2) for column in range(4)]
    assert spreads == [4.64, 3.76, 6.14, 2.29]


def test_the_paper_calls_its_own_method_the_best_everywhere() -> None:
    for column in range(len(DATASETS)):
        assert max(ACCURACY, key=lambda name: ACCURACY[name][column][0]) == "PAMT"


def test_methods_and_data_sets_have_the_names_that_users_type() -> None:
    configs = Path(__file__).parents[2] / "configs"
    assert all((configs / f"{dataset}.yaml").is_file() for dataset in DATASETS)
    for name in ACCURACY:
        method = find_method(name)
        assert method is not None
        assert method.name == name
