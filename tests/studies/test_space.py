from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.studies.space import Place, Space, read_space


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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"spaces": {}}, "has no key 'spaces'"),
        ({"datasets": ["cora_ml"]}, "`space` must hold"),
        ({"space": {"model.lr": 3}}, "model.lr must be a list of choices or a range"),
        ({"space": {"model.lr": []}}, "model.lr must be a list of choices or a range"),
        ({"space": {"model.lr": {"low": 1}}}, "model.lr must be a list of choices or a range"),
        ({"space": {"model.lr": {"low": 1, "high": 2, "max": 3}}}, "must be a list of choices"),
        ({"space": {"model.lr": {"low": "a", "high": 2}}}, "must be numbers, got ['a', 2]"),
        ({"space": {"model.lr": {"low": 2, "high": 2}}}, "`low` must be below `high`"),
        ({"space": {"a": [1]}, "start": [{"b": 1}]}, "`start` may hold options of `space` only"),
        ({"space": {"a": [1]}, "conditions": ["x"]}, "`conditions` must be a list of options"),
        ({"space": {"a": [1]}, "conditions": None}, "`conditions` must be a list of options"),
        ({"space": {"a": [1]}, "start": {"a": 1}}, "`start` must be a list of options"),
        ({"space": {"a": [1]}, "start": [{"a": 2}]}, "`start` has a 2, `space` only [1]"),
        (
            {"space": {"a": {"low": 1, "high": 2}}, "start": [{"a": 3}]},
            "`start` has a 3, `space` only",
        ),
        ({"space": {"a": [[1]]}}, "a: choices must be numbers or words"),
        ({"space": {"a": {"low": 0, "high": 1, "log": True}}}, "`log` needs `low` above 0"),
        (
            {"space": {"a": {"low": 1, "high": 9, "log": True, "step": 2}}},
            "`log` needs `low` above 0 and no `step`",
        ),
        ({"space": {"a": {"low": 1, "high": 9, "step": 0}}}, "`step` must be above 0, got 0"),
        ({"space": {"a": [1]}, "datasets": ["coral"]}, "`datasets`: "),
        ({"space": {"a": [1]}, "datasets": 3}, "`datasets` must be a list of names, got 3"),
        ({"space": {"a": [1]}, "datasets": ["pubmed", "Pubmed"]}, "must name each once"),
    ],
)
def test_a_mistake_in_a_space_is_named(content: dict[str, Any], words: str, tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=re.escape(words)):
        read_space(str(file))


def test_a_single_data_set_needs_no_list(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text("space: {model.lr: [0.1]}\ndatasets: pubmed\n")
    assert read_space(str(file)).datasets == ("pubmed",)


def test_all_options_that_a_space_names_are_known() -> None:
    space = Space({"a": [1]}, conditions=({}, {"b": 2}), start=({"a": 1},))
    assert space.named() == {"a", "b"}


def test_a_choice_is_typed_after_what_it_is_laid_over() -> None:
    space = Space({"a": [1]}, ("pubmed",), ({"b": 2},))
    (place,) = space.places()
    assert space.args(place, ["--model", "GAT"], {"a": 1}) == [
        *("--config", "configs/pubmed.yaml", "--model", "GAT", "--b", "2", "--a", "1")
    ]
    assert place.label() == "pubmed b=2"
    assert Place(None, {}).label() == "typed data"


def test_samples_hold_every_value_and_both_ends_of_a_range() -> None:
    space = Space({"a": ["x", "y", "z"], "b": {"low": 1, "high": 9}})
    assert space.samples() == [
        {"a": "x", "b": 1},
        {"a": "y", "b": 9},
        {"a": "z", "b": 9},
    ]


def test_a_value_from_a_range_is_rounded_one_from_a_list_is_kept() -> None:
    space = Space({"a": [0.123456], "b": {"low": 0.1, "high": 0.9}})
    assert space.choice({"b": 0.123456, "a": 0.123456}) == {"a": 0.123456, "b": 0.1235}
