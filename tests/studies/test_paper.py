from __future__ import annotations

from pathlib import Path

import numpy as np

from pamt_lightning.methods.registry import find_method
from pamt_lightning.studies.paper import ACCURACY, DATASETS, paper_accuracy


def test_the_accuracy_of_the_paper() -> None:
    assert paper_accuracy("pubmed", "SGC") == (70.68, 1.50)
    assert paper_accuracy("ms_academic", "PAMT") == (92.92, 0.14)
    assert paper_accuracy("cora_ml", "MLP") is paper_accuracy("synthetic", "PAMT") is None


def test_the_means_and_deviations_of_each_column_add_up() -> None:
    # Taken from the columns of the paper: a slip in one digit shows.
    sums = np.sum([*ACCURACY.values()], axis=0).round(2).tolist()
    assert sums == [[925.19, 4.64], [821.47, 3.76], [856.04, 6.14], [1013.41, 2.29]]


def test_methods_and_data_sets_have_the_names_that_users_type() -> None:
    configs = Path(__file__).parents[2] / "configs"
    assert all((configs / f"{dataset}.yaml").is_file() for dataset in DATASETS)
    methods = [find_method(name) for name in ACCURACY]
    assert [method and method.name for method in methods] == [*ACCURACY]
