"""Config files over each other: one model, one data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.training.layers import dataset_file, make_layer, merge, resolve

FILES = {
    "cora.yaml": """
data: {dataset: cora_ml}
model: {class_path: pamt_lightning.PAMTModule, init_args: {lr: 0.7, hidden_dim: 9}}
""",
    "pts.yaml": """
model: {class_path: pamt_lightning.PTSModule, init_args: {dropout: 0.1}}
by_dataset:
  pubmed: {model: {init_args: {dropout: 0.2}}}
  coauthor_cs: {model: {init_args: {dropout: 0.3}}, trainer: {max_epochs: 5}}
  synthetic: {model: {init_args: {dropout: 0.4}}}
""",
    "gat.yaml": "model: {class_path: pamt_lightning.GATModule, init_args: {lr: 0.077}}",
    "lr.yaml": "model: {init_args: {lr: 1e-3}}",  # for any model
    "again.yaml": "model: {class_path: PAMTModule, init_args: {hidden_dim: 3}}",
    "mine.yaml": "model: {class_path: mine.PAMTModule, init_args: {lr: 0.7}}",
    "beta.yaml": "model: {init_args: {momentum: 0.3, refresh_interval: 7}}",
    "both.yaml": """
model: {class_path: PAMTModule, init_args: {lr: 0.7}}
by_dataset: {pubmed: {model: {class_path: PTS, init_args: {alpha: 0.3}}}}
""",
    "only_cora.yaml": "data: {dataset: cora_ml}",
    "only_pubmed.yaml": "data: {dataset: pubmed}",
    "own_data.yaml": "data: {path: mine}",
    "no_data.yaml": "data: {path: null, dataset: null}",
    "calls_gat.yaml": "data: {dataset: pubmed}\nmodel: GAT",
    "class_gat.yaml": "data: {dataset: pubmed}\nmodel: {class_path: GAT}",
    "calls_pamt_1.yaml": "model: PAMT_1",
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


def model_of(
    files: str, model: str | None = None, data: dict[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """Name of the method and the model values that files (by stem) come to."""
    resolved = resolve([f"{name}.yaml" for name in files.split()], model, data)
    return resolved.model.name, resolved.merged().get("model", {})


@pytest.mark.parametrize(
    ("files", "data", "dropout"),
    [
        ("pts", {}, 0.4),
        ("pts", {"dataset": "PubMed"}, 0.2),
        ("pts", {"dataset": "ms-aca"}, 0.3),
        ("pts", {"dataset": "citeseer"}, 0.1),
        ("cora pts", {"dataset": "pubmed"}, 0.2),
        ("pts only_cora only_pubmed", {}, 0.2),
        ("pts", {"path": "mine"}, 0.1),
        ("pts own_data", {}, 0.1),
        ("pts no_data", {}, 0.4),
        ("pts own_data", {"path": None}, 0.4),
    ],
)
def test_values_for_the_data_set_in_use_override_those_of_their_file(
    files: str, data: dict[str, Any], dropout: float
) -> None:
    assert model_of(files, data=data) == ("PTS", {"dropout": dropout})


def test_all_sections_of_a_data_set_count() -> None:
    merged = resolve(["pts.yaml"], data={"dataset": "ms_academic"}).merged()
    assert merged == {"model": {"dropout": 0.3}, "trainer": {"max_epochs": 5}}
    assert model_of("both", data={"dataset": "citeseer"}) == ("PAMT", {"lr": 0.7})
    assert model_of("both", data={"dataset": "pubmed"}) == ("PTS", {"alpha": 0.3})


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("by_dataset: {cora: {}}", ("by_dataset.cora", "Did you mean", "cora_ml")),
        ("by_dataset: {1: {}}", ("by_dataset.1",)),
        ("by_dataset: [pubmed]", ("by_dataset", "['pubmed']")),
        ("by_dataset: {pubmed: 3}", ("by_dataset.pubmed", "got 3")),
        ("by_dataset: {pubmed: {modle: {}}}", ("by_dataset.pubmed", "'modle'", "'model'")),
        ("by_dataset: {pubmed: {by_dataset: {}}}", ("by_dataset.pubmed", "'by_dataset'")),
        ("by_dataset: {pubmed: {data: {dataset: citeseer}}}", ("by_dataset.pubmed", "other data")),
        ("modle: {}", ("'modle'", "Did you mean 'model'?", "by_dataset")),
        ("ckpt_path: last", ("ckpt_path", "command line")),
        ("data: cora_ml", ("data", "'cora_ml'")),
        ("model: [GAT]", ("model", "class_path", "['GAT']")),
        ("model: {lr: 3}", ("model", "init_args", "'lr'")),
        ("model: GATT", ("'GATT'", "Did you mean 'GAT'?")),
        ("model: gat.yaml", ("gat.yaml", "--config")),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(
    content: str, facts: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    with pytest.raises(InputError) as error:
        resolve(["cora.yaml", "bad.yaml"])
    assert str(error.value).startswith("bad.yaml")
    assert all(fact in str(error.value) for fact in facts), error.value


@pytest.mark.parametrize(
    ("files", "model", "lr"),
    [
        ("", "GAT", None),
        ("lr", "GATModule", 0.001),
        ("lr cora", "GAT", 0.001),
        ("gat", "GAT", 0.077),
        ("gat lr", "GAT", 0.001),
        ("lr gat", "GAT", 0.077),
        ("only_pubmed", "GAT", 0.01),  # the method's file has values for Pubmed …
        ("only_pubmed gat", "GAT", 0.077),  # … below the files that the user gives
        ("calls_gat", None, 0.01),
        ("class_gat", None, None),
        ("calls_gat lr", None, 0.001),
        ("lr calls_gat", None, 0.01),
    ],
)
def test_files_for_the_model_override_the_file_of_its_method(
    files: str, model: str | None, lr: float | None
) -> None:
    name, values = model_of(files, model)
    assert name == "GAT"
    assert values.get("lr") == lr


@pytest.mark.parametrize(
    ("files", "model", "expected"),
    [
        ("cora again", None, ("PAMT", {"lr": 0.7, "hidden_dim": 3})),  # the same class
        ("mine", None, ("PAMT", {"lr": 0.7})),
        ("mine", "pamt_lightning.PAMTModule", ("PAMT", {})),  # another class of the same name
        (
            "cora lr beta",
            "PAMT_0",  # a variant of PAMT overrides all files
            (
                "PAMT_0",
                {"lr": 0.001, "hidden_dim": 9, "momentum": 0.3, "refresh_interval": 0},
            ),
        ),
        ("beta", "PAMT_1", ("PAMT_1", {"momentum": 0.0, "refresh_interval": 7})),
        ("cora calls_pamt_1", None, ("PAMT_1", {"lr": 0.7, "hidden_dim": 9, "momentum": 0.0})),
    ],
)
def test_values_for_one_class_are_merged(
    files: str, model: str | None, expected: tuple[str, dict[str, Any]]
) -> None:
    assert model_of(files, model) == expected


@pytest.mark.parametrize(
    ("files", "model", "notes"),
    [
        ("cora pts", None, []),
        ("cora", "GAT", []),
        ("gat", "GAT", []),
        ("pts cora", None, [("pts.yaml", "later file", "PAMT")]),
        ("pts", "GAT", [("pts.yaml", "--model GAT")]),
        ("pts cora gat", "PAMT_0", [("pts.yaml", "PAMT_0"), ("gat.yaml", "PAMT_0")]),
    ],
)
def test_a_model_section_that_is_not_used_is_noted(
    files: str, model: str | None, notes: list[tuple[str, ...]]
) -> None:
    found = resolve([f"{name}.yaml" for name in files.split()], model).notes
    assert len(found) == len(notes)
    for note, facts in zip(found, notes, strict=True):
        assert all(fact in note for fact in facts), note


@pytest.mark.parametrize(
    ("files", "model", "result"),
    [
        ([], None, {"dropout": 0.9}),
        (["pts.yaml"], None, {"dropout": 0.2}),
        ([], "PTS", {"dropout": 0.9}),  # the method's own file lies below the checkpoint
        (["pts.yaml", "cora.yaml"], None, "cora.yaml"),
        (["pts.yaml"], "PAMT_0", "--model PAMT_0"),
    ],
)
def test_a_checkpoint_lies_below_the_files_and_keeps_its_model(
    files: list[str], model: str | None, result: dict[str, Any] | str
) -> None:
    path = "pamt_lightning.methods.propagate_then_train.PTSModule"
    section = {"class_path": path, "init_args": {"dropout": 0.9}}
    trained = make_layer("the checkpoint", {"model": section, "data": {"dataset": "pubmed"}})
    if isinstance(result, dict):
        assert resolve(files, model, base=trained).merged()["model"] == result
    else:
        with pytest.raises(InputError, match=rf"^{result} asks for PAMT.* is of PTS"):
            resolve(files, model, base=trained)


def test_a_data_set_stands_for_its_shipped_file() -> None:
    assert dataset_file("PubMed") == "configs/pubmed.yaml"
    assert dataset_file("mine/own.yaml") == "mine/own.yaml"
    with pytest.raises(InputError, match="'coraml'"):
        dataset_file("coraml")


def test_mappings_are_merged_and_all_else_is_replaced() -> None:
    logger = {"class_path": "B", "init_args": {"x": 1}}
    content: dict[str, Any] = {
        "a": {"b": 1, "c": [1, 2]},
        "logger": {"class_path": "A", "init_args": {"y": 1}},
    }
    over = {"a": {"c": [3]}, "logger": logger, "d": {"e": 1}}
    merge(content, over)
    assert content == {"a": {"b": 1, "c": [3]}, "logger": logger, "d": {"e": 1}}
    content["d"]["e"] = 2
    assert over["d"] == {"e": 1}
