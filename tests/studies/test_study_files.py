from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.studies.outcome import Cell
from pamt_lightning.studies.study import Sweep
from pamt_lightning.studies.study_files import read_study, studies
from tests.studies.small_runs import write_study


def test_a_study_says_what_its_file_says(tmp_path: Path) -> None:
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
    assert (study.name, study.title, study.description) == ("mine", "Mine", "Two lines.")
    assert study.datasets == ("cora_ml", "synthetic")
    assert study.methods == ("RobustGCN", "PAMT")
    assert study.splits == ("val0", "val1")
    assert study.inits == (0, 1, 2)
    assert study.reference == "PAMT"
    assert study.sweeps == (Sweep("model.alpha", (0.1, 0.2), "α"),)
    assert study.options == {"trainer.max_epochs": 5}
    assert study.split_options == ("data.noise_seed",)


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
    wrong = {**sweep, "reference": 0.3}
    name = write_study(tmp_path / "mine.yaml", sweeps=[wrong])
    with pytest.raises(InputError, match=r"`reference` of the sweep of model.alpha must be one of"):
        read_study(name)


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


def test_little_is_needed(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("datasets: synthetic\nmethods: [GCN, PAMT]")
    study = read_study(str(tmp_path / "mine.yaml"))
    assert study.title == "mine"
    assert study.reference == "GCN"
    assert len(study.splits) == 20
    assert study.inits == (0,)


def test_what_is_typed_takes_the_place_of_what_the_file_says(tmp_path: Path) -> None:
    name = write_study(tmp_path / "mine.yaml", reference="PAMT")
    study = read_study(
        name, datasets=["pubmed"], methods=["GAT", "GCN"], seeds="7", inits=2, reference="gcn"
    )
    assert study.datasets == ("pubmed",)
    assert study.methods == ("GAT", "GCN")
    assert study.splits == ("7",)
    assert study.inits == (0, 1)
    assert study.reference == "GCN"


def test_without_its_reference_a_shorter_study_compares_with_its_first(tmp_path: Path) -> None:
    name = write_study(tmp_path / "mine.yaml", methods=["PTS", "GCN", "PAMT"], reference="PAMT")
    assert read_study(name, methods=["GCN", "PAMT"]).reference == "PAMT"
    assert read_study(name, methods=["GCN", "PTS"]).reference == "GCN"


def test_methods_and_data_sets_may_be_files(tmp_path: Path) -> None:
    (tmp_path / "own.yml").write_text("model: {init_args: {lr: 0.1}}")
    file = str(tmp_path / "own.yml")
    study = read_study(write_study(tmp_path / "mine.yaml", methods=["PAMT", file]))
    assert study.methods == ("PAMT", file)
    assert read_study(write_study(tmp_path / "a.yaml", datasets=[file])).datasets == (file,)


def test_shipped_studies_are_known_by_name() -> None:
    assert set(studies()) == {"ablation", "main", "noise", "parameters"}
    assert read_study("parameters").name == "parameters"


ALPHA = {"option": "model.alpha", "values": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"dataset": ["pubmed"]}, "has no key 'dataset'. Did you mean 'datasets'?"),
        ({"zzz": 1}, "has no key 'zzz'. Keys: datasets, description,"),
        ({"methods": ["GATT"]}, "there is no method 'GATT'. Did you mean 'GAT'?"),
        ({"methods": ["nowhere.yaml"]}, "there is no config file nowhere.yaml"),
        ({"datasets": ["coraml2"]}, "There is no data set 'coraml2'. Did you mean"),
        ({"datasets": ["nowhere.yml"]}, "there is no config file nowhere.yml"),
        ({"datasets": []}, "`datasets` must be a list of names, got []"),
        ({"methods": None}, "`methods` must be a list of names, got None"),
        ({"methods": {"PAMT": 1}}, "`methods` must be a list of names, got {"),
        ({"methods": ["GCN", "gcn"]}, "`methods` must name each once, got GCN, GCN"),
        ({"methods": ["RGCN", "robust_gcn"]}, "got RobustGCN, RobustGCN"),
        ({"datasets": ["Cora-ML", "cora_ml"]}, "`datasets` must name each once"),
        ({"reference": "GCN"}, "`reference` must be one of the methods (PTS, PAMT), got 'GCN'"),
        ({"reference": "Best"}, "there is no method 'Best'"),
        ({"seeds": None}, "`seeds` must be a list of at least one split seed, got None"),
        ({"seeds": "test21"}, "1 to 20 are published"),
        ({"inits": 0}, "`inits` must be a whole number of at least 1, got 0"),
        ({"inits": True}, "got True"),
        ({"inits": "2"}, "got '2'"),
        ({"options": ["model.lr"]}, "`options` must hold options and their values"),
        ({"split_options": 3}, "`split_options` must be a list of names, got 3"),
        ({"sweeps": None}, "`sweeps` must be a list, got None"),
        ({"sweeps": ALPHA}, "`sweeps` must be a list, got {"),
        ({"sweeps": ["model.alpha"]}, "a sweep needs `option` and `values`"),
        ({"sweeps": [{"option": "model.alpha"}]}, "a sweep needs `option` and `values`"),
        ({"sweeps": [{**ALPHA, "symbl": "α"}]}, "no key 'symbl'. Did you mean 'symbol'? Keys: opt"),
        ({"sweeps": [{**ALPHA, "values": []}]}, "the sweep of model.alpha must be a list"),
        ({"sweeps": [{**ALPHA, "values": 0.1}]}, "the sweep of model.alpha must be a list"),
        ({"sweeps": [{**ALPHA, "values": [[1]]}]}, "model.alpha must be numbers or words"),
        ({"sweeps": [{**ALPHA, "values": [1, 2, 1.0]}]}, "must name each once, got 1, 2, 1.0"),
        ({"sweeps": [ALPHA, ALPHA]}, "`sweeps` must name each once, got model.alpha"),
    ],
)
def test_a_wrong_study_names_its_file_and_what_is_wrong(
    content: dict[str, Any], words: str, tmp_path: Path
) -> None:
    name = write_study(tmp_path / "mine.yaml", **content)
    with pytest.raises(InputError) as error:
        read_study(name)
    told = str(error.value)
    assert words in told
    assert told.startswith(name)
    assert "\n" not in told


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"reference": "GCN"}, "--reference: `reference` must be one of the methods (PTS, PAMT)"),
        ({"reference": "GCNN"}, "--reference: there is no method 'GCNN'"),
        ({"methods": ["PTX"]}, "--methods: there is no method 'PTX'. Did you mean 'PTS'?"),
        ({"datasets": ["pubmd"]}, "--datasets: There is no data set 'pubmd'."),
        ({"seeds": "test99"}, "--seeds: `seeds` 'test99' asks for 99 test seeds"),
        ({"seeds": "0..4"}, "--seeds: `seeds` must be test20, val5 or the like, or a list"),
        ({"inits": 0}, "--inits: `inits` must be a whole number of at least 1, got 0"),
    ],
)
def test_a_wrong_word_that_was_typed_is_not_the_fault_of_the_file(
    typed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    name = write_study(tmp_path / "mine.yaml")
    with pytest.raises(InputError) as error:
        read_study(name, **typed)
    assert str(error.value).startswith(words)
    assert "split_seed" not in str(error.value)


def test_a_study_remembers_what_was_typed_in_place_of_its_own(tmp_path: Path) -> None:
    name = write_study(tmp_path / "mine.yaml")
    assert read_study(name).narrowed == ""
    assert read_study(name).source == name
    study = read_study(name, methods=["PTS", "PAMT"], seeds="test3", reference="PTS")
    assert study.narrowed == "--methods PTS,PAMT --seeds test3 --reference PTS"


def test_files_that_a_study_names_may_lie_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "own.yaml").write_text("model: {init_args: {lr: 0.1}}")
    (home / "graph.yaml").write_text("data: {dataset: synthetic}")
    monkeypatch.chdir(tmp_path)
    content = {"methods": ["PAMT", "own.yaml"], "datasets": ["graph.yaml"], "reference": "own.yaml"}
    study = read_study(write_study(Path("home/mine.yaml"), **content))
    assert study.methods == ("PAMT", str(Path("home/own.yaml")))
    assert study.datasets == (str(Path("home/graph.yaml")),)
    assert study.reference == study.methods[1]
    (tmp_path / "own.yaml").write_text("model: {init_args: {lr: 0.2}}")
    assert read_study("home/mine.yaml", reference="PAMT").methods == ("PAMT", "own.yaml")
    with pytest.raises(InputError, match=r"--datasets: there is no config file graph\.yaml"):
        read_study("home/mine.yaml", datasets=["graph.yaml"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("paramters", "there is no study 'paramters'. Did you mean 'parameters'? Studies: abl"),
        ("nowhere.yaml", "there is no study file nowhere.yaml."),
        ("configs/studies/mian.yaml", "Did you mean 'configs/studies/main.yaml'?"),
    ],
)
def test_a_study_that_is_not_there_is_named(name: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        read_study(name)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "not valid YAML"),
        ("x", "must hold what the study consists of: datasets:, methods: and more, got str"),
        ("", "must hold what the study consists of: datasets:, methods: and more, got nothing"),
    ],
)
def test_a_file_that_is_no_study_is_named(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_study(str(tmp_path / "mine.yaml"))
