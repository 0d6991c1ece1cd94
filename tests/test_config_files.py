"""Config files over each other: one class, one data set, and what is typed on top."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml

from pamt_lightning import PAMTModule, PTSModule
from pamt_lightning.config_files import names_data, option_value, plain_arguments
from pamt_lightning.errors import InputError
from pamt_lightning.main import main

SECTIONS = {"data", "model", "trainer", "seed_everything"}
CLASSES = {"PAMTModule", "PTSModule"}

CORA = """
data: {dataset: cora_ml}
model: {class_path: pamt_lightning.PAMTModule, init_args: {lr: 0.7, hidden_dim: 9}}
"""
PTS = """
model: {class_path: pamt_lightning.PTSModule, init_args: {dropout: 0.1}}
by_dataset:
  pubmed: {model: {init_args: {dropout: 0.2}}}
  coauthor_cs: {model: {init_args: {dropout: 0.3}}, trainer: {max_epochs: 5}}
  synthetic: {model: {init_args: {dropout: 0.4}}}
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cora.yaml").write_text(CORA)
    (tmp_path / "pts.yaml").write_text(PTS)


def plain(*args: str, trained: bool = False) -> list[str]:
    return plain_arguments(list(args), SECTIONS, CLASSES, trained)[0]


def layers(*args: str) -> list[Any]:
    """What the parser is given as configs: contents, or the names of untouched files."""
    values = [value for option, value in zip(*[iter(plain(*args))] * 2) if option == "--config"]  # noqa: B905
    return [yaml.safe_load(value) if value.startswith("{") else value for value in values]


def parsed(argv: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The configuration that the command line comes to."""
    with pytest.raises(SystemExit) as stop:
        main(["fit", *argv, "--print_config"])
    captured = capsys.readouterr()
    assert stop.value.code in (0, None), captured.err
    config: dict[str, Any] = yaml.safe_load(captured.out)
    return config


def default(model: type, name: str) -> Any:
    return inspect.signature(model).parameters[name].default


# One data set --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "dropout"),
    [
        ([], 0.4),
        (["--data.dataset", "pubmed"], 0.2),
        (["--data.dataset=PubMed"], 0.2),
        (["--data.dataset", "ms_academic"], 0.3),
        (["--data.dataset", "ms-aca"], 0.3),
        (["--data.dataset", "citeseer"], 0.1),
        (["--config", "cora.yaml"], 0.1),
        (["--config", "cora.yaml", "--data.dataset", "pubmed"], 0.2),
        (["--data.dataset", "pubmed", "--config", "cora.yaml"], 0.2),
        (["--config", "cora.yaml", "--config", "{data: {dataset: pubmed}}"], 0.2),
        (["--data", '{"dataset": "pubmed"}'], 0.2),
        (["--data.path", "mine"], 0.1),
        (["--config", "{data: {path: mine}}"], 0.1),
        (["--config", "{data: {path: null, dataset: null}}"], 0.4),
        (["--data.path", "null"], 0.4),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_the_part_of_the_data_set_in_use_is_laid_over_its_file(
    argv: list[str], dropout: float, first: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    # With a class of another file before or after it, the last class counts.
    file = ["--config", "pts.yaml"]
    if first and "cora.yaml" in argv:
        argv = [word.replace("cora.yaml", "only_data.yaml") for word in argv]
        Path("only_data.yaml").write_text("data: {dataset: cora_ml}")
    config = parsed([*file, *argv] if first else [*argv, *file], capsys)
    assert config["model"]["class_path"] == "pamt_lightning.PTSModule"
    assert config["model"]["init_args"]["dropout"] == dropout
    assert "by_dataset" not in config


def test_other_sections_of_a_part_count_too_and_typed_options_win(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["--config", "pts.yaml", "--data.dataset", "ms_academic"]
    assert parsed(argv, capsys)["trainer"]["max_epochs"] == 5
    config = parsed(["--trainer.max_epochs", "8", "--model.dropout", "0.9", *argv], capsys)
    assert config["trainer"]["max_epochs"] == 8
    assert config["model"]["init_args"]["dropout"] == 0.9


def test_a_part_may_change_the_class(capsys: pytest.CaptureFixture[str]) -> None:
    Path("both.yaml").write_text(
        "model: {class_path: pamt_lightning.PAMTModule, init_args: {lr: 0.7}}\n"
        "by_dataset: {pubmed: {model: {class_path: pamt_lightning.PTSModule}}}\n"
    )
    argv = ["--config", "both.yaml", "--data.dataset"]
    assert parsed([*argv, "citeseer"], capsys)["model"]["init_args"]["lr"] == 0.7
    model = parsed([*argv, "pubmed"], capsys)["model"]
    assert model["class_path"] == "pamt_lightning.PTSModule"
    assert model["init_args"]["lr"] == default(PTSModule, "lr")


def test_numbers_keep_their_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.yaml").write_text("model: {init_args: {lr: 1e-3}}\nby_dataset: {pubmed: {}}")
    lr = parsed(["--config", "odd.yaml"], capsys)["model"]["init_args"]["lr"]
    assert lr == 0.001
    assert isinstance(lr, float)


@pytest.mark.parametrize(
    ("by_dataset", "words"),
    [
        ("{cora: {}}", "bad.yaml: by_dataset.cora: There is no data set 'cora'. Did you mean cora"),
        ("{nothing_like_it: {}}", "Known: cora_ml, citeseer, pubmed, ms_academic"),
        ("{1: {}}", "There is no data set '1'"),
        ("[pubmed]", "bad.yaml: by_dataset must hold data sets and their sections, got ['pub"),
        ("null", "bad.yaml: by_dataset must hold"),
        ("{pubmed: 3}", "bad.yaml: by_dataset.pubmed must hold sections such as model:, got 3"),
        ("{pubmed: {modle: {}}}", "bad.yaml: by_dataset.pubmed has no section 'modle'"),
        ("{pubmed: {by_dataset: {}}}", "by_dataset.pubmed has no section 'by_dataset'"),
        ("{pubmed: {data: {dataset: citeseer}}}", "by_dataset.pubmed cannot choose other data"),
    ],
)
def test_a_wrong_part_is_named_whatever_data_set_is_in_use(by_dataset: str, words: str) -> None:
    Path("bad.yaml").write_text(f"by_dataset: {by_dataset}")
    with pytest.raises(InputError) as error:
        plain("--config", "bad.yaml")
    assert words in str(error.value)


def test_an_unknown_data_set_in_use_is_left_to_the_data_module() -> None:
    assert "--data.dataset" in plain("--config", "pts.yaml", "--data.dataset", "coraml")


# One class -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        ["--config", "cora.yaml", "--config", "{model: {class_path: pamt_lightning.PTSModule}}"],
        ["--config", "cora.yaml", "--config", "{model: pamt_lightning.PTSModule}"],
        ["--config", "cora.yaml", "--config", "{model: {class_path: PTSModule}}"],
        ["--config", "cora.yaml", "--model", "pamt_lightning.PTSModule"],
        ["--config", "cora.yaml", "--model=PTSModule"],
        ["--model.class_path", "PTSModule", "--config", "cora.yaml"],
        ["--config", "cora.yaml", "--model", '{"class_path": "pamt_lightning.PTSModule"}'],
        ["--config", "{model: {init_args: {lr: 0.7}}}", "--model", "PTSModule"],
        ["--model", "PTSModule"],
        ["--config", "{model: {class_path: pamt_lightning.PTSModule}}"],
    ],
)
def test_no_value_of_another_class_is_taken_along(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    model = parsed(argv, capsys)["model"]
    assert model["class_path"] == "pamt_lightning.PTSModule"
    assert default(PTSModule, "lr") != default(PAMTModule, "lr")
    for name, value in model["init_args"].items():
        assert value == default(PTSModule, name), name


@pytest.mark.parametrize(
    "again",
    [
        "pamt_lightning.PAMTModule",
        "pamt_lightning.modules.pamt.PAMTModule",
        "PAMTModule",
    ],
)
def test_the_same_class_named_again_keeps_its_values(
    again: str, capsys: pytest.CaptureFixture[str]
) -> None:
    later = f"{{model: {{class_path: {again}, init_args: {{hidden_dim: 3}}}}}}"
    options = parsed(["--config", "cora.yaml", "--config", later], capsys)["model"]["init_args"]
    assert (options["lr"], options["hidden_dim"]) == (0.7, 3)


def test_classes_of_one_name_in_two_modules_are_two(capsys: pytest.CaptureFixture[str]) -> None:
    first = "{model: {class_path: mine.PAMTModule, init_args: {lr: 0.7}}}"
    options = parsed(["--config", first, "--model", "pamt_lightning.PAMTModule"], capsys)["model"]
    assert options["init_args"]["lr"] == default(PAMTModule, "lr")


def test_a_class_given_up_does_not_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--config", "cora.yaml", "--config", "pts.yaml", "--model", "PAMT"]
    model = parsed(argv, capsys)["model"]
    assert model["class_path"] == "pamt_lightning.PAMTModule"
    assert model["init_args"]["lr"] == default(PAMTModule, "lr")


def test_the_rest_of_a_file_stays_when_its_class_goes() -> None:
    assert layers("--config", "cora.yaml", "--model", "PTSModule") == [
        {"model": {"class_path": "PTSModule"}},
        {"data": {"dataset": "cora_ml"}},
        {"model": {"class_path": "PTSModule"}},
    ]


def test_a_checkpoint_keeps_its_class() -> None:
    first = "{model: {class_path: pamt_lightning.modules.propagate_then_train.PTSModule}}"
    with pytest.raises(InputError, match=r"cora\.yaml asks for pamt_lightning\.PAMTModule, the"):
        plain("--config", first, "--config", "cora.yaml", trained=True)
    assert plain("--config", first, "--config", "pts.yaml", trained=True)


# Files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [["--config", "cora.yaml"], ["--config=cora.yaml"]])
def test_a_plain_file_is_passed_on_as_it_is(option: list[str]) -> None:
    assert layers(*option) == [
        {"model": {"class_path": "pamt_lightning.PAMTModule"}},
        "cora.yaml",
    ]
    assert layers("-c", "cora.yaml") == layers(*option)


def test_a_section_in_a_file_of_its_own_is_found_beside_its_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "model.yaml").write_text(
        "class_path: pamt_lightning.PTSModule\ninit_args: {lr: 0.6}"
    )
    (tmp_path / "deep" / "whole.yaml").write_text("model: model.yaml\nby_dataset: {pubmed: {}}")
    options = parsed(["--config", "cora.yaml", "--config", "deep/whole.yaml"], capsys)["model"]
    assert options["class_path"] == "pamt_lightning.PTSModule"
    assert options["init_args"]["lr"] == 0.6
    assert options["init_args"]["hidden_dim"] == default(PTSModule, "hidden_dim")


def test_a_shipped_config_is_found_from_everywhere_but_a_file_here_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "shipped"
    (shipped / "baselines").mkdir(parents=True)
    (shipped / "a.yaml").write_text("data: {dataset: pubmed}")
    (shipped / "baselines" / "b.yaml").write_text("model: {init_args: {lr: 0.7}}")
    monkeypatch.setattr("pamt_lightning.methods.config_folder", lambda: shipped)
    assert layers("--config", "configs/a.yaml")[1] == str(shipped / "a.yaml")
    assert layers("--config", "configs/baselines/b.yaml")[1] == str(shipped / "baselines/b.yaml")
    with pytest.raises(
        InputError, match=r"no config file configs/c\.yaml\. .*: configs/a\.yaml\.$"
    ):
        plain("--config", "configs/c.yaml")
    for wrong in ("a.yaml", "other/a.yaml", "configs/../a.yaml"):
        with pytest.raises(InputError, match="there is no config file"):
            plain("--config", wrong)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a.yaml").write_text("data: {dataset: citeseer}")
    assert layers("--config", "configs/a.yaml")[1] == "configs/a.yaml"


def test_data_named_in_any_way_is_noticed() -> None:
    Path("cpu.yaml").write_text("trainer: {accelerator: cpu}")
    for args in (
        ["--config", "cora.yaml"],
        ["--config=cora.yaml"],
        ["--config", "configs/pubmed.yaml"],
        ["--data.path", "x"],
        ["--data.dataset=x"],
        ["--data", "{}"],
    ):
        assert names_data(args), args
    assert not names_data(["--config", "cpu.yaml", "--data.root", "x", "--data.train", "3"])


def test_the_last_value_of_an_option_counts() -> None:
    assert option_value(["--a", "1", "--a=2"], "--a") == "2"
    assert option_value(["--a", "--b", "1"], "--a") is None
    assert option_value(["--b", "1", "--a"], "--a") is None
