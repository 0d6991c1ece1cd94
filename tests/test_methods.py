"""Methods by name, their files, and `pamt methods`."""

import re
from pathlib import Path

import pytest

import pamt_lightning
from pamt_lightning.cli.main import main
from pamt_lightning.methods.registry import config_folder, find_method, methods
from tests.command_line import parsed

ROOT = Path(__file__).parents[1]
NAMES = [
    *(
        "PAMT",
        "PAMT_plus",
        "PAMT_0",
        "PAMT_1",
        "PAMT_r",
        "MLP",
        "LabelPropagation",
        "GCN",
        "GAT",
        "RobustGCN",
    ),
    *("SGC", "APPNP", "PTS", "PTD", "PTA"),
]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_all_methods_are_there_with_a_line_on_each() -> None:
    assert [method.name for method in methods()] == NAMES
    for method in methods():
        assert 10 < len(method.description) < 100, method
        assert method.class_path().removeprefix("pamt_lightning.") in pamt_lightning.__all__
        assert method.file is None or method.file.parent == config_folder() / "baselines"


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        *((name, name.lower()) for name in NAMES if "_" in name or name.isupper()),
        *(("RobustGCN", "robust_gcn"), ("robust-gcn", "robust_gcn"), ("Robust_GCN", "robust_gcn")),
        *(("LabelPropagation", "label_propagation"), ("label-propagation", "label_propagation")),
        *(("gat", "gat"), ("Pamt-R", "pamt_r"), ("Robust GCN", "robust_gcn"), ("SGCN", "sgc")),
        *(("RGCN", "robust_gcn"), ("r-gcn", "robust_gcn"), ("lp", "label_propagation")),
    ],
)
def test_a_method_is_found_however_it_is_written(name: str, stem: str) -> None:
    method = find_method(name)
    assert method is not None
    assert (method.file.stem if method.file else "pamt") == stem


def test_a_file_that_is_put_there_is_a_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "baselines").mkdir()
    file = tmp_path / "baselines" / "my_own.yaml"
    file.write_text("# Mine (me 2024): does it.\nmodel: {init_args: {lr: 0.7}}\n")
    monkeypatch.setattr("pamt_lightning.methods.registry.config_folder", lambda: tmp_path)
    assert [(m.name, m.description) for m in methods()][1:] == [("my_own", "does it (me 2024)")]
    assert parsed(["--model", "MyOwn"], capsys)["model"]["init_args"]["lr"] == 0.7


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_its_file_laid_over_the_others(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    method = find_method(name)
    assert method is not None
    files = ["--config", "configs/pubmed.yaml"]
    by_name = parsed(["--model", name, *files], capsys)
    by_file = [] if method.file is None else ["--config", str(method.file)]
    assert by_name == parsed([*files, *by_file], capsys)
    assert by_name["model"]["class_path"] == method.class_path()


@pytest.mark.parametrize(
    "argv",
    [
        ["--model", "GAT", "--model.lr", "0.1"],
        ["--model.lr", "0.1", "--model", "GAT"],
        ["--model.lr=0.1", "--model=gat"],
        ["--model.init_args.lr", "0.1", "--config", "configs/cora_ml.yaml", "--model", "GAT"],
        ["--model", "GAT", "--model.lr", "0.1", "--config", "configs/cora_ml.yaml"],
    ],
)
def test_what_is_typed_wins_over_the_method_wherever_it_stands(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    model = parsed(argv, capsys)["model"]
    assert model["class_path"] == "pamt_lightning.GATModule"
    assert model["init_args"]["lr"] == 0.1
    assert model["init_args"]["dropout"] == 0.6  # neither PAMT's nor that of the data set's file


def test_pamt_keeps_the_values_of_the_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--config", "configs/ms_academic.yaml"], []):
        assert parsed([*argv, "--model", "pamt"], capsys) == parsed(argv, capsys)


def test_the_settings_of_a_data_set_reach_the_method(capsys: pytest.CaptureFixture[str]) -> None:
    lr = {
        dataset: parsed(["--data.dataset", dataset, "--model", "GAT"], capsys)["model"]["init_args"]
        for dataset in ("cora_ml", "pubmed")
    }
    assert (lr["cora_ml"]["num_output_heads"], lr["pubmed"]["num_output_heads"]) == (1, 8)


@pytest.mark.parametrize("option", ["--model", "--model.help"])
def test_an_unknown_method_gets_the_nearest_and_all(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", option, "GATT"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("pamt fit: error: there is no method 'GATT'. Did you mean 'GAT'? Meth")
    assert len(told.splitlines()) == 1
    assert all(name in told for name in NAMES)


def test_the_nearest_method_may_be_near_by_its_other_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["fit", "--model", "RRGCN"]) == 2
    assert "Did you mean 'RobustGCN'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        *(
            "NodeClassificationModule",
            "SupervisedModule",
            "pamt_lightning.NodeClassificationModule",
        ),
        "pamt_lightning.methods.soft_labels.SoftLabelModule",
    ],
)
def test_what_models_are_derived_from_is_no_model(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "--model", name]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"pamt fit: error: {name} is a base of models, not a model. Models: AP")
    assert told.count("SupervisedModule") == name.count("SupervisedModule")
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    "argv",
    [
        *(["--model.help", "GAT"], ["--model.help=GATModule"], ["--model", "GAT", "--model.help"]),
        ["--config", "configs/cora_ml.yaml", "--model.help", "--model", "gat"],
    ],
)
def test_the_options_of_a_method_are_explained(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["fit", *argv])
    assert "--model.num_output_heads" in capsys.readouterr().out


def test_the_list_names_all_and_says_how_to_run_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(NAMES)]] == NAMES
    assert max(map(len, lines)) <= 112
    assert [line.split(", also ")[1] for line in lines if ", also " in line] == [
        "LP",
        "RGCN",
        "SGCN",
    ]
    assert any("pamt fit --config configs/cora_ml.yaml --model GAT" in line for line in lines)


def test_one_method_shows_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "robust-gcn"]) == 0
    first, rest = capsys.readouterr().out.split("\n", 1)
    assert Path(first.removeprefix("# ")).read_text(encoding="utf-8") == rest
    assert main(["methods", "pamt"]) == 0
    assert "no file of its own" in capsys.readouterr().out
    assert main(["methods", "gatt"]) == 2
    assert "pamt methods: error: there is no method 'gatt'" in capsys.readouterr().err


def test_the_wheel_gets_every_package_and_the_configs() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # Python 3.10 has no tomllib
    listed = re.search(r"^packages = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert listed is not None
    package = ROOT / "pamt_lightning"
    folders = {file.parent.relative_to(ROOT) for file in package.rglob("__init__.py")}
    expected = {".".join(folder.parts) for folder in folders} | {"pamt_lightning.configs"}
    assert set(re.findall(r'"([\w.]+)"', listed[1])) == expected
    assert '"pamt_lightning.configs" = "configs"' in text
    assert not (package / "configs").exists()  # only where it is installed
