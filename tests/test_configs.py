"""Every config that is shipped is complete, parses, and says what the paper's table says."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pamt_lightning import PAMTModule
from pamt_lightning.cli.fit_parser import FitParser
from pamt_lightning.methods.registry import find_method
from pamt_lightning.studies.expand import cell_args, option_args
from pamt_lightning.studies.space import read_space
from pamt_lightning.studies.study import Study
from pamt_lightning.studies.study_files import read_study
from tests.command_line import parsed

FOLDER = Path(__file__).parents[1] / "configs"
CONFIGS = sorted(FOLDER.glob("*.yaml"))
BASELINES = sorted((FOLDER / "baselines").glob("*.yaml"))
STUDIES = sorted((FOLDER / "studies").glob("*.yaml"))
SPACES = sorted((FOLDER / "spaces").glob("*.yaml"))
VARIANTS = {"pamt_0": "refresh_interval", "pamt_1": "momentum", "pamt_r": "pretrain_epochs"}
METHODS = [path for path in BASELINES if path.stem not in VARIANTS]
FILLED_IN = {"num_features", "num_classes"}  # from the data

# hidden, α, wd, lr, β, K, dropout, t_u: table "Hyper-parameters of PAMT on each dataset"
PAPER = {
    "cora_ml": (128, 0.10, 0.025, 0.05, 0.50, 10, 0.20, 30),
    "citeseer": (128, 0.15, 0.055, 0.10, 0.25, 10, 0.15, 20),  # wd: see DEVIATIONS
    "pubmed": (128, 0.10, 0.015, 0.10, 0.10, 10, 0.35, 10),
    "ms_academic": (256, 0.10, 0.010, 0.05, 0.10, 10, 0.35, 10),
}
DEVIATIONS = {"citeseer": {"weight_decay": 0.01}}  # each with its reason in the file
_COLUMNS = (
    *("hidden_dim", "alpha", "weight_decay", "lr", "momentum"),
    *("num_steps", "dropout", "refresh_interval"),
)


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return found


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def test_all_are_shipped() -> None:
    assert {path.stem for path in CONFIGS} == {*PAPER, "synthetic"}
    assert {path.stem for path in BASELINES} == {
        *("gcn", "gat", "robust_gcn", "sgc", "appnp", "pts", "ptd", "pta", "mlp"),
        *("label_propagation", "pamt_plus", *VARIANTS),
    }


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda p: p.stem)
@pytest.mark.parametrize("dataset", CONFIGS, ids=lambda p: p.stem)
def test_every_method_can_be_laid_over_every_data_set(
    dataset: Path, baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = parsed(["--config", str(dataset), "--config", str(baseline)], capsys)
    assert files["data"]["dataset"] == dataset.stem
    expected = read(baseline)
    for_data = expected.pop("by_dataset", {}).get(dataset.stem, {})
    values = expected["model"]["init_args"] | for_data.get("model", {}).get("init_args", {})
    if baseline.stem in VARIANTS:
        values = read(dataset)["model"]["init_args"] | values
    assert files["model"]["class_path"] == expected["model"]["class_path"]
    for key, value in values.items():
        assert files["model"]["init_args"][key] == value, key


@pytest.mark.parametrize("path", BASELINES, ids=lambda p: p.stem)
def test_a_method_by_name_is_its_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pubmed = ("--config", str(FOLDER / "pubmed.yaml"))  # several methods have values of their own
    by_file = parsed([*pubmed, "--config", str(path)], capsys)
    assert parsed([*pubmed, "--model", path.stem], capsys) == by_file


@pytest.mark.parametrize("path", METHODS, ids=lambda p: p.stem)
def test_a_baseline_writes_its_defaults_out(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = read(path)["model"]
    defaults = parsed(["--model.class_path", model["class_path"]], capsys)["model"]["init_args"]
    defaults.pop("log_every_n_epochs", None)
    assert model["init_args"] == defaults


# Settings of the methods' authors, and what differs from them with its reason in the file.
AUTHORS: dict[str, dict[str, float]] = {
    "gcn": {"lr": 0.01, "weight_decay": 5e-4, "dropout": 0.5, "hidden_dim": 64},
    "gat": {
        **{"lr": 0.005, "weight_decay": 5e-4, "dropout": 0.6, "attention_dropout": 0.6},
        **{"hidden_dim": 8, "num_heads": 8, "num_output_heads": 1},
    },
    "robust_gcn": {
        **{"lr": 0.01, "weight_decay": 5e-4, "dropout": 0.6, "hidden_dim": 16},
        **{"kl_weight": 5e-4, "gamma": 1.0},
    },
    "sgc": {"lr": 0.2, "weight_decay": 1.3e-5, "num_steps": 2},
    "appnp": {
        **{"lr": 0.01, "weight_decay": 0.005, "dropout": 0.5, "hidden_dim": 64},
        **{"num_steps": 10, "alpha": 0.1},
    },
    "pts": {"lr": 0.1, "weight_decay": 0.005, "dropout": 0, "hidden_dim": 64, "loss_weight": 0.05},
    "ptd": {"lr": 0.1, "weight_decay": 0.005, "dropout": 0, "hidden_dim": 64, "loss_weight": 10},
    "pta": {"lr": 0.1, "weight_decay": 0.005, "dropout": 0, "hidden_dim": 64, "loss_weight": 0.05},
}
BY_DATASET: dict[str, dict[str, dict[str, float]]] = {
    "gat": {"pubmed": {"lr": 0.01, "weight_decay": 1e-3, "num_output_heads": 8}},
    "sgc": {"citeseer": {"weight_decay": 2.35e-5}, "pubmed": {"weight_decay": 7.4e-5}},
    "appnp": {"ms_academic": {"alpha": 0.2}},
}


@pytest.mark.parametrize("path", METHODS, ids=lambda p: p.stem)
def test_values_are_those_of_the_methods_authors(path: Path) -> None:
    content = read(path)
    given = content["model"]["init_args"]
    for name, value in AUTHORS.get(path.stem, {}).items():
        assert given[name] == value, name
    parts = content.get("by_dataset", {})
    shown = {dataset: part["model"]["init_args"] for dataset, part in parts.items()}
    assert shown == BY_DATASET.get(path.stem, {})


@pytest.mark.parametrize(("name", "argument"), VARIANTS.items())
def test_a_variant_of_pamt_takes_one_thing_away(name: str, argument: str) -> None:
    path = next(path for path in BASELINES if path.stem == name)
    assert read(path)["model"] == {
        "class_path": "pamt_lightning.PAMTModule",
        "init_args": {argument: 0},
    }


@pytest.mark.parametrize("path", BASELINES, ids=lambda p: p.stem)
def test_each_file_says_what_it_is_and_how_to_run_it(path: Path) -> None:
    title, run, *_ = path.read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ")
    assert title.endswith(".")
    command = "pamt fit --config configs/cora_ml.yaml --config configs/baselines"
    assert run == f"# Run: {command}/{path.name}"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_key_reaches_an_argument(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = flat(parsed(["--config", str(path)], capsys))
    for key, value in flat(read(path)).items():
        assert shown[key] == value, key


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_argument_of_the_method_is_written_out(path: Path) -> None:
    given = set(read(path)["model"]["init_args"])
    arguments = set(inspect.signature(PAMTModule).parameters)
    assert arguments - given == FILLED_IN | {"mask", "log_every_n_epochs"}


@pytest.mark.parametrize("name", PAPER)
def test_values_are_those_of_the_paper(name: str) -> None:
    path = next(path for path in CONFIGS if path.stem == name)
    options = read(path)["model"]["init_args"]
    expected = dict(zip(_COLUMNS, PAPER[name], strict=True)) | DEVIATIONS.get(name, {})
    assert {column: options[column] for column in _COLUMNS} == expected
    assert path.read_text(encoding="utf-8").count("Deviation:") == len(DEVIATIONS.get(name, {}))


def test_all_studies_are_shipped() -> None:
    assert {path.stem for path in STUDIES} == {"ablation", "main", "noise", "parameters"}


def shipped_study(path: Path) -> Study:
    """A study with the methods that are there."""
    named = read(path)["methods"]
    return read_study(str(path), methods=[name for name in named if find_method(name)])


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_a_study_says_what_it_is_and_how_to_run_it(path: Path) -> None:
    title, run, *_ = path.read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ")
    assert run == f"# Run: pamt study {path.stem}"
    study = shipped_study(path)
    assert study.title != study.name
    assert study.description
    assert set(read(path)["methods"]) - set(study.methods) <= {"PAMT_plus"}
    assert set(study.datasets) <= set(PAPER)
    assert study.reference == "PAMT"
    assert all(seed.startswith("test") for seed in study.splits)  # for reporting, not choosing


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_every_option_of_a_study_reaches_an_argument(path: Path) -> None:
    study = shipped_study(path)
    configure = FitParser().configuration
    splits = dict.fromkeys(study.split_options, 7)
    points = {sweep.option: sweep.values[-1] for sweep in study.sweeps}
    for cell in study.cells():
        if cell.option is None or cell.value == points[cell.option]:
            config = flat(configure([*cell_args(study, cell), *option_args(splits)]))
            options = {**study.options, **splits}
            if cell.option is not None:
                options[cell.option] = cell.value
            for name, value in options.items():
                key = name.replace("model.", "model.init_args.")
                assert config[key] == value, (cell, name)
            assert config["data.dataset"] == cell.dataset


def test_the_parameter_study_goes_through_the_configured_values() -> None:
    study = shipped_study(FOLDER / "studies" / "parameters.yaml")
    values = {sweep.option: sweep.values for sweep in study.sweeps}
    for name in study.datasets:
        configured = read(FOLDER / f"{name}.yaml")["model"]["init_args"]
        for option, swept in values.items():
            assert configured[option.removeprefix("model.")] in swept, (name, option)


def test_all_spaces_are_shipped() -> None:
    assert {path.stem for path in SPACES} == {"pamt", "pamt_plus"}


@pytest.mark.parametrize("path", SPACES, ids=lambda p: p.stem)
def test_every_option_of_a_space_reaches_an_argument(path: Path) -> None:
    space = read_space(str(path))
    (run,) = re.findall(r"^# Run: pamt tune (.+)$", path.read_text(encoding="utf-8"), re.M)
    words = run.split()
    assert words[words.index("--space") + 1] == f"configs/spaces/{path.name}"
    model = words[words.index("--model") + 1] if "--model" in words else "PAMT"
    assert find_method(model) == find_method(path.stem)
    configure = FitParser().configuration
    for place in space.places():
        for choice in space.samples():
            config = flat(configure(space.args(place, ["--model", model], choice)))
            assert config["data.dataset"] == place.dataset
            for name, value in {**place.condition, **choice}.items():
                assert config[name.replace("model.", "model.init_args.")] == value, (place, name)


def test_no_config_is_the_synthetic_config(capsys: pytest.CaptureFixture[str]) -> None:
    synthetic = next(path for path in CONFIGS if path.stem == "synthetic")
    without, with_it = flat(parsed([], capsys)), flat(parsed(["--config", str(synthetic)], capsys))
    for key in flat(read(synthetic)).keys() - {"data.dataset", "data.split"}:
        assert without[key] == with_it[key], key
