from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.studies.runs import Options
from pamt_lightning.studies.space import Place, Space, read_space
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
        ({"space": {"model.lr": []}}, ["model.lr", "list of choices or a range"]),
        ({"space": {"model.lr": {"low": 1}}}, ["model.lr", "range"]),
        ({"space": {"model.lr": {"low": 1, "high": 2, "max": 3}}}, ["model.lr", "range", "max"]),
        ({"space": {"a": {"low": "a", "high": 2}}}, ["a: ", "numbers", "'a'"]),
        ({"space": {"a": {"low": True, "high": 2}}}, ["a: ", "numbers", "True"]),
        ({"space": {"a": {"low": 2, "high": 2}}}, ["`low` must be below `high`"]),
        ({"space": {"a": {"low": 0, "high": 1, "log": True}}}, ["`log`", "`low` above 0"]),
        ({"space": {"a": {"low": 1, "high": 9, "log": True, "step": 2}}}, ["`log`", "no `step`"]),
        ({"space": {"a": {"low": 1, "high": 9, "step": 0}}}, ["`step`", "above 0"]),
        ({"space": {"a": [[1]]}}, ["a: ", "numbers or words"]),
        ({"space": {"a": [1]}, "start": [{"b": 1}]}, ["`start`", "options of `space`", "'b'"]),
        ({"space": {"a": [1]}, "start": {"a": 1}}, ["`start`", "list"]),
        ({"space": {"a": [1]}, "start": [{"a": 2}]}, ["`start`", "a 2", "[1]"]),
        ({"space": {"a": {"low": 1, "high": 2}}, "start": [{"a": 3}]}, ["`start`", "a 3"]),
        ({"space": {"a": [1]}, "conditions": ["x"]}, ["`conditions`", "'x'"]),
        ({"space": {"a": [1]}, "conditions": None}, ["`conditions`", "None"]),
        ({"space": {"a": [1]}, "datasets": ["coral"]}, ["`datasets`", "'coral'"]),
        ({"space": {"a": [1]}, "datasets": 3}, ["`datasets`", "got 3"]),
        ({"space": {"a": [1]}, "datasets": ["pubmed", "Pubmed"]}, ["`datasets`", "once"]),
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
    assert [place.label() for place in space.places()] == [
        *("cora_ml", "cora_ml model.b=2", "pubmed", "pubmed model.b=2")
    ]
    assert called[1] == ({"model.b": 2, "model.a": 1, "data.noise_seed": 0}, "cora_ml")
    assert len(called) == 4
    assert [run.cell.dataset for run in runs[:4]] == [place.label() for place in space.places()]
    assert [run.split_seed for run in runs] == ["val0"] * 4 + ["val1"] * 4
    assert [run.config.data["noise_seed"] for run in runs] == [1000] * 4 + [1001] * 4
    assert runs[1].config.model["init_args"] == {"dataset": "cora_ml", "a": 1, "b": 2}
    assert Place(None, {}).label() == "data"


def test_samples_hold_every_value_and_both_ends_of_a_range() -> None:
    space = Space({"a": ["x", "y", "z"], "b": {"low": 1, "high": 9}})
    assert space.samples() == [{"a": "x", "b": 1}, {"a": "y", "b": 9}, {"a": "z", "b": 9}]


def test_a_value_from_a_range_is_rounded_one_from_a_list_is_kept() -> None:
    space = Space({"a": [0.123456], "b": {"low": 0.1, "high": 0.9}})
    assert space.choice({"b": 0.123456, "a": 0.123456}) == {"a": 0.123456, "b": 0.1235}
