from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.studies.study import Cell, Study, Sweep, read_study
from tests.studies.small_runs import write_study


def test_a_study_is_read_from_its_file(tmp_path: Path) -> None:
    name = write_study(
        tmp_path / "mine.yaml",
        title="Mine",
        description="Two\n  lines.",
        datasets=["Cora-ML", "synthetic"],
        methods=["rgcn", "pamt"],
        seeds="val2",
        inits=3,
        reference="pamt",
        sweeps=[{"option": "model.alpha", "values": [0.1, 0.2], "symbol": "α"}],
        options={"trainer.max_epochs": 5},
        split_options=["data.noise_seed"],
    )
    study = read_study(name)
    assert study == Study(
        name="mine",
        title="Mine",
        description="Two lines.",
        datasets=("cora_ml", "synthetic"),
        methods=("RobustGCN", "PAMT"),
        splits=("val0", "val1"),
        inits=(0, 1, 2),
        reference="PAMT",
        sweeps=(Sweep("model.alpha", (0.1, 0.2), "α"),),
        options={"trainer.max_epochs": 5},
        split_options=("data.noise_seed",),
        source=name,
    )
    assert study.option_names() == {"model.alpha", "trainer.max_epochs", "data.noise_seed"}
    (tmp_path / "least.yaml").write_text("datasets: synthetic\nmethods: [GCN, PAMT]")
    least = read_study(str(tmp_path / "least.yaml"))
    assert (least.title, least.reference, least.inits) == ("least", "GCN", (0,))
    assert len(least.splits) == 20


def test_a_study_may_have_several_references_and_a_sweep_one_of_its_values(tmp_path: Path) -> None:
    sweep = {"option": "model.alpha", "values": [0.1, 0.2], "reference": {"pubmed": 0.2}}
    name = write_study(tmp_path / "mine.yaml", reference=["PTS", "pamt"], sweeps=[sweep])
    study = read_study(name)
    assert (study.reference, study.further_references) == ("PTS", ("PAMT",))
    assert read_study(name, reference="PAMT").further_references == ()
    assert study.sweeps[0].reference_for("pubmed") == 0.2
    assert study.sweeps[0].reference_for("cora_ml") is None
    one = read_study(name, methods=["PAMT"])
    assert (one.reference, one.further_references) == ("PAMT", ())
    cell = Cell("pubmed", "PAMT", "model.alpha", 0.1)
    assert one.reference_of(cell) == cell._replace(value=0.2)
    assert study.reference_of(cell) == cell._replace(method="PTS")


def test_cells_come_point_by_point(tmp_path: Path) -> None:
    sweeps = [{"option": "model.alpha", "values": [0.1, 0.2]}, {"option": "x", "values": [None]}]
    name = write_study(tmp_path / "mine.yaml", datasets=["pubmed", "synthetic"], sweeps=sweeps)
    cells = read_study(name).cells()
    assert len(cells) == 3 * 2 * 2
    assert cells[:3] == [
        Cell("pubmed", "PTS", "model.alpha", 0.1),
        Cell("pubmed", "PAMT", "model.alpha", 0.1),
        Cell("synthetic", "PTS", "model.alpha", 0.1),
    ]
    assert cells[-1] == Cell("synthetic", "PAMT", "x", None)
    plain = read_study(write_study(tmp_path / "plain.yaml"))
    assert plain.cells() == [Cell("synthetic", "PTS"), Cell("synthetic", "PAMT")]


def test_options_of_the_command_line_replace_values_of_the_file(tmp_path: Path) -> None:
    name = write_study(tmp_path / "mine.yaml", reference="PAMT")
    study = read_study(
        name, datasets=["pubmed"], methods=["GAT", "GCN"], seeds="7", inits=2, reference="gcn"
    )
    assert (study.datasets, study.methods) == (("pubmed",), ("GAT", "GCN"))
    assert (study.splits, study.inits, study.reference) == (("7",), (0, 1), "GCN")
    typed = "--datasets pubmed --methods GAT,GCN --seeds 7 --inits 2 --reference gcn"
    assert study.narrowed == typed


@pytest.mark.parametrize(
    ("methods", "reference", "is_noted"),
    [(["GCN", "PAMT"], "PAMT", False), (["GCN", "PTS"], "GCN", True), (["GCN"], "GCN", False)],
)
def test_without_its_reference_a_narrowed_study_compares_with_its_first_and_says_so(
    methods: list[str],
    reference: str,
    is_noted: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = write_study(tmp_path / "mine.yaml", methods=["PTS", "GCN", "PAMT"], reference="PAMT")
    assert read_study(name, methods=methods).reference == reference
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == is_noted
    assert all("compared with GCN; PAMT, the reference" in line for line in lines)


def test_config_files_may_be_beside_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "own.yaml").write_text("model: {init_args: {lr: 0.1}}")
    (home / "graph.yml").write_text("data: {dataset: synthetic}")
    monkeypatch.chdir(tmp_path)
    content = {"methods": ["PAMT", "own.yaml"], "datasets": ["graph.yml"], "reference": "own.yaml"}
    study = read_study(write_study(Path("home/mine.yaml"), **content))
    assert study.methods == ("PAMT", str(Path("home/own.yaml")))
    assert study.datasets == (str(Path("home/graph.yml")),)
    assert study.reference == study.methods[1]
    (tmp_path / "own.yaml").write_text("model: {init_args: {lr: 0.2}}")
    assert read_study("home/mine.yaml", reference="PAMT").methods == ("PAMT", "own.yaml")
    with pytest.raises(InputError, match=r"--datasets: .*graph\.yml"):
        read_study("home/mine.yaml", datasets=["graph.yml"])


ALPHA = {"option": "model.alpha", "values": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ({"dataset": ["pubmed"]}, ["'dataset'", "'datasets'?"]),
        ({"methods": ["GATT"]}, ["'GATT'", "'GAT'?"]),
        ({"datasets": ["coraml2"]}, ["'coraml2'", "Did you mean"]),
        ({"datasets": ["nowhere.yml"]}, ["nowhere.yml"]),
        ({"datasets": []}, ["`datasets`", "[]"]),
        ({"methods": None}, ["`methods`", "None"]),
        ({"methods": ["RGCN", "robust_gcn"]}, ["`methods`", "once", "RobustGCN, RobustGCN"]),
        ({"reference": "GCN"}, ["`reference`", "(PTS, PAMT)", "'GCN'"]),
        ({"reference": "Best"}, ["'Best'"]),
        ({"seeds": None}, ["`seeds`", "None"]),
        ({"inits": True}, ["`inits`", "True"]),
        ({"inits": "2"}, ["`inits`", "'2'"]),
        ({"options": ["model.lr"]}, ["`options`", "['model.lr']"]),
        ({"split_options": 3}, ["`split_options`", "got 3"]),
        ({"sweeps": ALPHA}, ["`sweeps`", "list"]),
        ({"sweeps": [{"option": "model.alpha"}]}, ["`option` and `values`"]),
        ({"sweeps": [{**ALPHA, "symbl": "α"}]}, ["model.alpha", "'symbl'", "'symbol'?"]),
        ({"sweeps": [{**ALPHA, "values": []}]}, ["model.alpha", "`values`", "list"]),
        ({"sweeps": [{**ALPHA, "values": [[1]]}]}, ["model.alpha", "numbers or words"]),
        ({"sweeps": [{**ALPHA, "values": [1, 2, 1.0]}]}, ["model.alpha", "once", "1, 2, 1.0"]),
        ({"sweeps": [{**ALPHA, "reference": 0.3}]}, ["model.alpha", "`reference`", "0.3"]),
        ({"sweeps": [ALPHA, ALPHA]}, ["`sweeps`", "once", "model.alpha"]),
    ],
)
def test_an_error_in_a_study_names_file_key_and_value(
    content: dict[str, Any], facts: list[str], tmp_path: Path
) -> None:
    name = write_study(tmp_path / "mine.yaml", **content)
    with pytest.raises(InputError) as error:
        read_study(name)
    assert all(fact in str(error.value) for fact in facts), error.value
    assert str(error.value).startswith(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("typed", "facts"),
    [
        ({"reference": "GCN"}, ["`reference`", "(PTS, PAMT)"]),
        ({"methods": ["PTX"]}, ["'PTX'", "'PTS'?"]),
        ({"datasets": ["pubmd"]}, ["'pubmd'"]),
        ({"seeds": "0..4"}, ["test20", "0..4"]),
        ({"inits": 0}, ["`inits`", "got 0"]),
    ],
)
def test_an_error_in_an_option_names_the_option_and_not_the_file(
    typed: dict[str, Any], facts: list[str], tmp_path: Path
) -> None:
    name = write_study(tmp_path / "mine.yaml")
    with pytest.raises(InputError) as error:
        read_study(name, **typed)
    (option,) = typed
    assert str(error.value).startswith(f"--{option}: ")
    assert all(fact in str(error.value) for fact in facts), error.value
    assert "split_seed" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("paramters", "'paramters'.* 'parameters'?.* ablation, main"),
        ("configs/studies/mian.yaml", r"configs/studies/main\.yaml\?"),
    ],
)
def test_an_unknown_study_is_named(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_study(name)
