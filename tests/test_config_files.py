"""Config files over each other: one class, one data set, and what is typed on top."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml

from pamt_lightning import GATModule, PAMTModule, PTSModule
from pamt_lightning.cli.config_files import Trained, names_data, option_value, plain_arguments
from pamt_lightning.errors import InputError
from tests.command_line import parsed

SECTIONS = {"data", "model", "trainer", "seed_everything"}
CLASSES = {"PAMTModule", "PTSModule", "GATModule"}

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


def plain(*args: str, trained: Trained | None = None) -> list[str]:
    return plain_arguments(list(args), SECTIONS, CLASSES, trained, {"test_after_fit"}).args


def layers(*args: str, trained: Trained | None = None) -> list[Any]:
    """What the parser is given as configs: contents, or the names of untouched files."""
    words = plain(*args, trained=trained)
    values = [value for option, value in zip(*[iter(words)] * 2) if option == "--config"]  # noqa: B905
    return [yaml.safe_load(value) if value.startswith("{") else value for value in values]


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
        "pamt_lightning.methods.pamt.PAMTModule",
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


@pytest.mark.parametrize(
    "last", [["--model", "PAMT"], ["--config", "{model: {class_path: PAMTModule}}"]]
)
def test_only_sections_of_other_classes_are_dropped(
    last: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--config", "cora.yaml", "--config", "pts.yaml", *last]
    model = parsed(argv, capsys)["model"]
    assert model["class_path"].endswith("PAMTModule")
    assert model["init_args"]["lr"] == 0.7
    assert model["init_args"]["dropout"] == default(PAMTModule, "dropout")


def test_the_part_of_a_data_set_goes_with_the_class_of_its_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["--config", "pts.yaml", "--data.dataset", "pubmed", "--model", "PAMT"]
    assert parsed(argv, capsys)["model"]["init_args"]["dropout"] == default(PAMTModule, "dropout")


def test_the_rest_of_a_file_stays_when_its_class_goes() -> None:
    assert layers("--config", "cora.yaml", "--model", "PTSModule") == [
        {"model": {"class_path": "PTSModule"}},
        {"data": {"dataset": "cora_ml"}},
    ]


GAT = "{model: {class_path: pamt_lightning.GATModule, init_args: {lr: 0.077}}}"
LR = "{model: {init_args: {lr: 1e-3}}}"  # whatever the model


@pytest.mark.parametrize(
    ("argv", "lr"),
    [
        (["--model", "GAT"], 0.005),
        (["--model", "GAT", "--config", LR], 0.001),
        (["--config", LR, "--model", "GAT"], 0.001),
        (["--model", "GATModule", "--config", LR], 0.001),
        (["--model", "GAT", "--config", "cora.yaml", "--config", LR], 0.001),
        (["--config", GAT, "--model", "GAT"], 0.077),
        (["--model", "GAT", "--config", GAT], 0.077),
        (["--model", "GAT", "--config", GAT, "--config", LR], 0.001),
        (["--model", "GAT", "--config", GAT, "--model.lr", "0.3"], 0.3),
        (["--model", "GAT", "--config", GAT, "--model", '{"init_args": {"lr": 0.2}}'], 0.2),
        (["--model", "GAT", "--config", "cora.yaml"], 0.005),
        (["--model", "GAT", "--config", "pts.yaml"], 0.005),
        (["--model", "PTS", "--model", "GAT", "--config", "cora.yaml"], 0.005),
    ],
)
def test_the_model_option_decides_the_class_and_files_for_it_win_over_the_method(
    argv: list[str], lr: float, capsys: pytest.CaptureFixture[str]
) -> None:
    model = parsed(argv, capsys)["model"]
    assert model["class_path"].endswith("GATModule")
    assert model["init_args"]["lr"] == lr
    assert model["init_args"]["dropout"] == default(GATModule, "dropout")


@pytest.mark.parametrize("argv", [["--model", "PAMT_0"], ["--model", "PAMT_1", "--model=PAMT_0"]])
@pytest.mark.parametrize("first", [True, False])
def test_a_variant_of_pamt_lies_over_all_files_and_the_last_one_alone_counts(
    argv: list[str], first: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ["--config", "configs/cora_ml.yaml"]
    options = parsed([*argv, *file] if first else [*file, *argv], capsys)["model"]["init_args"]
    assert (options["refresh_interval"], options["momentum"]) == (0, 0.5)


@pytest.mark.parametrize(
    ("argv", "notes"),
    [
        (["--config", "cora.yaml", "--config", "pts.yaml"], []),
        (["--config", "cora.yaml", "--model", "GAT"], []),
        (["--model", "GAT", "--config", "cora.yaml"], []),
        (["--config", "pts.yaml", "--config", "{data: {dataset: pubmed}}"], []),
        (
            ["--config", "pts.yaml", "--config", "cora.yaml"],
            ["pts.yaml is not used: cora.yaml, which comes later, names another model (PAMTModule"],
        ),
        (
            ["--config", "pts.yaml", "--config", "cora.yaml", "--data.dataset", "pubmed"],
            ["pts.yaml is not used: cora.yaml, which comes later, names another model (PAMTModule"],
        ),
        (
            ["--model", "GAT", "--config", "pts.yaml"],
            ["pts.yaml is not used: --model GAT names another model (GATModule)."],
        ),
    ],
)
def test_a_method_that_is_not_run_is_told(argv: list[str], notes: list[str]) -> None:
    told = plain_arguments(argv, SECTIONS, CLASSES).notes
    assert len(told) == len(notes)
    for line, words in zip(told, notes, strict=True):
        assert line.startswith(f"the model section of {words}")


@pytest.mark.parametrize("written", ["model: GAT", "model: {class_path: GAT}"])
def test_a_config_may_call_a_method_by_name(
    written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("own.yaml").write_text(f"data: {{dataset: pubmed}}\n{written}")
    model = parsed(["--config", "cora.yaml", "--config", "own.yaml"], capsys)["model"]
    assert model["class_path"] == "pamt_lightning.GATModule"
    # By its name with the method's file, which has values for Pubmed; as a class without.
    assert model["init_args"]["num_output_heads"] == (8 if written == "model: GAT" else 1)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--config", "{model: GATT}"], "--config: there is no method 'GATT'. Did you mean 'GAT'?"),
        (["--config", "{model: {class_path: GATT}}"], "Did you mean 'GAT'?"),
        (["--config", "{model: no.yaml}"], "--config: there is no file no.yaml with a model sect"),
        (["--model", "no.yaml"], "`--model no.yaml`: --model takes a method by name, files go to "),
        (["--model", "pts.yaml"], "`--model pts.yaml`: --model takes a method by name, files go t"),
        (["--model", "configs/baselines/gat.yaml"], "files go to --config"),
    ],
)
def test_a_model_that_is_not_there_is_told_in_a_line(argv: list[str], words: str) -> None:
    with pytest.raises(InputError) as error:
        plain(*argv)
    assert words in str(error.value)


# A checkpoint --------------------------------------------------------------------------------

PTS_PATH = "pamt_lightning.methods.propagate_then_train.PTSModule"
PTS_RUN = f"{{model: {{class_path: {PTS_PATH}, init_args: {{dropout: 0.9}}}}, test_after_fit: no}}"
OVER = ["--config", "cora.yaml", "--config", "pts.yaml"]


@pytest.mark.parametrize("keeps_values", [True, False])
def test_a_checkpoint_is_compared_with_the_class_that_the_files_end_with(
    keeps_values: bool,
) -> None:
    trained = Trained(PTS_RUN, keeps_values)
    for args in ([], OVER, ["--model", "PTS"], ["--config", "cora.yaml", "--model", "pts"]):
        assert layers(*args, trained=trained)[0] == {"model": {"class_path": PTS_PATH}}
    for args, source in (
        (["--config", "cora.yaml"], r"cora\.yaml"),
        (["--config", "pts.yaml", "--config", "cora.yaml"], r"cora\.yaml"),
        (["--model", "PAMT"], "--model PAMT"),
        ([*OVER, "--model", "PAMT_0"], "--model PAMT_0"),
    ):
        with pytest.raises(InputError, match=rf"^{source} asks for PAMTModule.* of PTSMo"):
            plain(*args, trained=trained)


def test_a_trained_model_keeps_its_values_unless_others_are_typed() -> None:
    own = {"model": {"class_path": PTS_PATH, "init_args": {"dropout": 0.9}}}
    trained = Trained(PTS_RUN, keeps_values=True)
    typed = '{"init_args": {"lr": 0.2}}'
    args = [*OVER, "--config", LR, "--model", "PTS", "--model", typed, "--model.dropout", "0.3"]
    assert layers(*args, trained=trained) == [
        {"model": {"class_path": PTS_PATH}},
        own,
        {"data": {"dataset": "cora_ml"}},
        {"model": {"init_args": {"lr": 0.2}}},
    ]
    assert plain(*args, trained=trained)[-2:] == ["--model.dropout", "0.3"]


def test_a_training_that_goes_on_sees_other_values_to_refuse_them() -> None:
    trained = Trained(PTS_RUN, keeps_values=False)
    assert layers(*OVER, trained=trained)[-1]["model"]["init_args"] == {"dropout": 0.1}
    # By its name alone the method brings its values below those of the run.
    assert layers("--model", "PTS", trained=trained)[-1]["model"]["init_args"] == {"dropout": 0.9}


# Files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [["--config", "cora.yaml"], ["--config=cora.yaml"]])
def test_a_plain_file_is_passed_on_as_it_is(option: list[str]) -> None:
    assert layers(*option) == [
        {"model": {"class_path": "pamt_lightning.PAMTModule"}},
        "cora.yaml",
    ]
    assert layers("-c", "cora.yaml") == layers("-ccora.yaml") == layers(*option)


def test_a_section_in_a_file_of_its_own_is_found_beside_its_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "model.yaml").write_text(
        "class_path: pamt_lightning.PTSModule\ninit_args: {lr: 0.6}"
    )
    (tmp_path / "deep" / "trainer.yaml").write_text("max_epochs: 7")
    (tmp_path / "deep" / "more.yaml").write_text("patience: 8")
    (tmp_path / "deep" / "whole.yaml").write_text(
        "model: model.yaml\ntrainer: trainer.yaml\nby_dataset: {cora_ml: {stopping: more.yaml}}"
    )
    config = parsed(["--config", "cora.yaml", "--config", "deep/whole.yaml"], capsys)
    assert config["trainer"]["max_epochs"] == 7
    assert config["stopping"]["patience"] == 8
    options = config["model"]
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
    monkeypatch.setattr("pamt_lightning.methods.registry.config_folder", lambda: shipped)
    assert layers("--config", "configs/a.yaml")[1] == str(shipped / "a.yaml")
    assert layers("--config", "configs/baselines/b.yaml")[1] == str(shipped / "baselines/b.yaml")
    for wrong, words in (
        ("configs/nothing_like_it.yaml", "In that folder: configs/a.yaml."),
        ("configs/aa.yaml", "Did you mean configs/a.yaml?"),
        ("configs/baseline/b.yaml", "Did you mean configs/baselines/b.yaml?"),
        ("baselines/b.yaml", "Did you mean configs/baselines/b.yaml?"),
    ):
        with pytest.raises(InputError) as error:
            plain("--config", wrong)
        assert str(error.value) == f"there is no config file {wrong}. {words}"
    for wrong in ("a.yaml", "other/a.yaml", "configs/../a.yaml"):
        with pytest.raises(InputError, match="there is no config file"):
            plain("--config", wrong)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a.yaml").write_text("data: {dataset: citeseer}")
    assert layers("--config", "configs/a.yaml")[1] == "configs/a.yaml"


def test_what_only_other_commands_know_is_passed_over() -> None:
    Path("run.yaml").write_text("test_after_fit: true\ntrainer: {max_epochs: 3}")
    assert layers("--config", "run.yaml")[1] == {"trainer": {"max_epochs": 3}}
    with pytest.raises(InputError, match="has no section 'test_after'"):
        plain("--config", "{test_after: true}")


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
