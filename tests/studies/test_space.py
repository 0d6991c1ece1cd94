from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from pamt_lightning.errors import InputError
from pamt_lightning.studies.runs import Options
from pamt_lightning.studies.space import Space, read_space
from pamt_lightning.studies.study import Study
from pamt_lightning.training.config import RunConfig
from tests.studies.small_runs import made_up_config


def test_a_space_is_read(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    content = {
        "space": {"model.lr": {"low": 0.1, "high": 1.0, "log": True}, "model.mask": [True]},
        "datasets": ["Cora-ML", "pubmed"],
        "conditions": [{}, {"data.structure_noise": 0.5}],
        "start": [{"model.lr": 0.5}],
    }
    file.write_text(json.dumps(content))
    space = read_space(str(file))
    assert space.datasets == ("cora_ml", "pubmed")
    assert space.conditions == ({}, {"data.structure_noise": 0.5})
    assert space.start == ({"model.lr": 0.5},)
    assert dict(space.options) == content["space"]
    assert space.option_names() == {"model.lr", "model.mask", "data.structure_noise"}
    file.write_text("space: {model.lr: [0.1]}\ndatasets: pubmed\n")
    assert read_space(str(file)).datasets == ("pubmed",)
    assert read_space(str(file)).conditions == ({},)


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ({"spaces": {}}, ["'spaces'", "'space'?"]),
        ({"datasets": ["cora_ml"]}, ["`space`", "None"]),
        ({"space": {"model.lr": 3}}, ["model.lr", "list of choices or a range", "got 3"]),
        ({"space": {"model.lr": {"low": 1, "high": 2, "max": 3}}}, ["model.lr", "range", "max"]),
        ({"space": {"a": {"low": True, "high": 2}}}, ["a: ", "numbers", "True"]),
        ({"space": {"a": {"low": 3, "high": 2}}}, ["a: ", "`low <= high`", "low=3, high=2"]),
        ({"space": {"a": {"low": 1.0, "high": 9, "log": True, "step": 2}}}, ["a: ", "`step`"]),
        ({"space": {"a": [[1]]}}, ["a: ", "numbers or strings"]),
        ({"space": {"a": [1]}, "start": [{"b": 1}]}, ["`start`", "options of `space`", "'b'"]),
        ({"space": {"a": [1]}, "start": {"a": 1}}, ["`start`", "list"]),
        ({"space": {"a": [1]}, "start": [{"a": 2}]}, ["`start`", "a 2", "[1]"]),
        ({"space": {"a": {"low": 1, "high": 2}}, "start": [{"a": 3}]}, ["`start`", "a 3"]),
        ({"space": {"a": [1]}, "conditions": ["x"]}, ["`conditions`", "'x'"]),
        ({"space": {"a": [1]}, "conditions": None}, ["`conditions`", "None"]),
        ({"space": {"a": [1]}, "datasets": ["coral"]}, ["data set 'coral'"]),
        ({"space": {"a": [1]}, "datasets": 3}, ["`datasets`", "got 3"]),
    ],
)
def test_an_error_in_a_space_names_file_key_and_value(
    content: dict[str, Any], facts: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError) as error:
        read_space(str(file))
    assert str(error.value).startswith(str(file))
    assert all(fact in str(error.value) for fact in facts), error.value


def test_a_choice_is_run_in_every_place_on_every_split() -> None:
    space = Space({"model.a": [1]}, ("cora_ml", "pubmed"), ({}, {"model.b": 2}))
    called: list[tuple[Options, str | None]] = []

    def typed(options: Options, dataset: str | None) -> RunConfig:
        called.append((options, dataset))
        return made_up_config(dataset=dataset).with_options(options)

    study = Study(
        "t", "t", space.datasets, ("tuned",), ("val0", "val1"), split_options=("data.noise_seed",)
    )
    runs = space.runs(typed, {"model.a": 1}, study)
    places = ["cora_ml", "cora_ml model.b=2", "pubmed", "pubmed model.b=2"]
    assert list(space.places()) == places
    assert called[1] == ({"model.b": 2, "model.a": 1, "data.noise_seed": 0}, "cora_ml")
    assert len(called) == 4
    assert [run.cell.dataset for run in runs[:4]] == places
    assert [run.split_seed for run in runs] == ["val0"] * 4 + ["val1"] * 4
    assert [run.config.data["noise_seed"] for run in runs] == [1000] * 4 + [1001] * 4
    assert runs[1].config.model["init_args"] == {"dataset": "cora_ml", "a": 1, "b": 2}
    assert list(Space({}).places()) == ["data"]


def test_options_are_distributions_of_their_kind() -> None:
    space = Space(
        {
            "lr": {"low": 0.001, "high": 1, "log": True},
            "num_steps": {"low": 6, "high": 20, "step": 2},
            "dropout": {"low": 0, "high": 1, "step": 0.25},
            "mask": [True, "x"],
        }
    )
    assert space.distributions() == {
        "lr": FloatDistribution(0.001, 1, log=True),
        "num_steps": IntDistribution(6, 20, step=2),
        "dropout": FloatDistribution(0, 1, step=0.25),
        "mask": CategoricalDistribution([True, "x"]),
    }


def test_samples_hold_both_ends_of_a_range_and_choices_are_rounded_unless_listed() -> None:
    space = Space({"a": ["x", "y", "z"], "b": {"low": 1, "high": 9}})
    assert space.samples() == [{"a": "x", "b": 1}, {"a": "y", "b": 9}, {"a": "z", "b": 9}]
    space = Space({"a": [0.123456], "b": {"low": 0.1, "high": 0.9}})
    assert space.choice({"b": 0.123456, "a": 0.123456}) == {"a": 0.123456, "b": 0.1235}
