from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pamt_lightning.errors import InputError
from pamt_lightning.studies import fingerprint
from pamt_lightning.studies.fingerprint import code_version, digest, run_id, what_matters

PAMT, PTS, GAT = (f"pamt_lightning.{name}Module" for name in ("PAMT", "PTS", "GAT"))


def forget() -> None:
    code_version.cache_clear()
    fingerprint._tree.cache_clear()


@pytest.fixture(scope="module")
def versions() -> dict[str, str]:
    """The versions of three methods, as the code is."""
    return {name: code_version(name) for name in (PAMT, PTS, GAT)}


@pytest.fixture(autouse=True)
def _clean(versions: dict[str, str]) -> Iterator[None]:
    forget()
    yield
    forget()


def versions_with(monkeypatch: pytest.MonkeyPatch, module: str, source: str) -> dict[str, str]:
    """The versions of the methods if a module had this source."""
    original = fingerprint._source
    monkeypatch.setattr(
        fingerprint, "_source", lambda name: source if name == module else original(name)
    )
    return {name: code_version(name) for name in (PAMT, PTS, GAT)}


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("modules.pamt", {PAMT}),
        ("modules.propagate_then_train", {PTS}),
        ("functional.propagation", {PAMT, PTS, GAT}),  # APPNP's, beside GAT
        ("functional.similarity", {PAMT}),
        ("nn.gat", {GAT}),
        ("nn.appnp", {GAT}),  # the supervised methods stand in one module
        ("nn.sparse", {PAMT, PTS, GAT}),
        ("data.noise", {PAMT, PTS, GAT}),
        ("callbacks.stopping", {PAMT, PTS, GAT}),
        ("callbacks.progress", set()),
    ],
)
def test_a_change_of_code_counts_for_those_that_go_through_it(
    module: str,
    expected: set[str],
    versions: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"pamt_lightning.{module}"
    now = versions_with(monkeypatch, name, fingerprint._source(name) + "\nCHANGED = 1\n")
    assert {method for method in now if now[method] != versions[method]} == expected


def test_rewording_does_not_count(
    versions: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = fingerprint._source("pamt_lightning.methods.pamt")
    reworded = source.replace('"""PAMT: propagation', '"""Mask: propagation')  # of the module
    reworded = reworded.replace('"""Propagation with Adaptive', '"""With')  # of a class
    reworded = reworded.replace('"""Pretrain f_θ', '"""First train f_θ')  # of a method
    reworded = f"# A comment.\n{reworded}".replace("# pretraining is", "# This is")
    assert (
        sum(a != b for a, b in zip(source.split("\n"), reworded.split("\n")[1:], strict=True)) == 4
    )
    assert versions_with(monkeypatch, "pamt_lightning.methods.pamt", reworded) == versions


def test_a_changed_number_counts(versions: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    source = fingerprint._source("pamt_lightning.methods.pamt")
    changed = source.replace("momentum: float = 0.5", "momentum: float = 0.6")
    assert changed != source
    now = versions_with(monkeypatch, "pamt_lightning.methods.pamt", changed)
    assert now[PAMT] != versions[PAMT]
    assert now[PTS] == versions[PTS]


@pytest.mark.parametrize("packed", [False, True], ids=["module", "package"])
def test_a_change_beside_a_model_of_the_user_counts(
    packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, dot, home = (tmp_path, "", "beside_model")
    if packed:
        folder, dot, home = (tmp_path / "beside_package", ".", "beside_package.beside_model")
        folder.mkdir()
        (folder / "__init__.py").write_text("from .beside_helper import FACTOR\n")
    imports = f"import json\nimport torch\nfrom {dot}beside_helper import FACTOR\n"
    base = "from pamt_lightning import PTSModule\n\n\nclass Mine(PTSModule):\n    pass\n"
    (folder / "beside_model.py").write_text(imports + base)
    (folder / "beside_helper.py").write_text("FACTOR = 1\n")
    (folder / "beside_other.py").write_text("NUMBER = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = code_version(f"{home}.Mine")
    for name, content, counts in (
        ("beside_other", "NUMBER = 2\n", False),
        ("beside_helper", "FACTOR = 1  # one\n", False),
        ("beside_helper", "FACTOR = 2\n", True),
    ):
        (folder / f"{name}.py").write_text(content)
        forget()
        assert (code_version(f"{home}.Mine") != before) == counts, (name, content)


def test_of_installed_packages_only_that_of_the_model_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    (folder / "installed_model").mkdir(parents=True)
    (folder / "installed_other.py").write_text("NUMBER = 1\n")
    (folder / "installed_model" / "helper.py").write_text("FACTOR = 1\n")
    (folder / "installed_model" / "__init__.py").write_text(
        "from installed_other import NUMBER\nfrom pamt_lightning import PTSModule\n\n"
        "from .helper import FACTOR\n\n\nclass Mine(PTSModule):\n    pass\n"
    )
    monkeypatch.syspath_prepend(folder)
    before = code_version("installed_model.Mine")
    for name, counts in (("installed_other", False), ("installed_model/helper", True)):
        (folder / f"{name}.py").write_text("NUMBER = FACTOR = 2\n")
        forget()
        assert (code_version("installed_model.Mine") != before) == counts, name


def test_a_class_is_the_same_by_both_its_names() -> None:
    assert code_version(PAMT) == code_version("pamt_lightning.methods.pamt.PAMTModule")
    assert code_version(PAMT) != code_version(PTS)


@pytest.mark.parametrize("name", ["pamt_lightning.NoModule", "nowhere.Module"])
def test_a_class_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"there is no class {name}"):
        code_version(name)


def test_the_order_of_keys_does_not_matter() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1, "b": [1, 2]}) != digest({"a": 1, "b": [2, 1]})
    assert digest({"a": 1}) != digest({"a": "1"})


def test_a_published_seed_is_one_by_name_and_by_number() -> None:
    config = {"model": "x"}
    ids = [
        run_id(config, "test0", 0, {}),
        run_id(config, "2144199730", 0, {}),
        run_id(config, "test1", 0, {}),
        run_id(config, "test0", 1, {}),
        run_id(config, "test0", 0, {"data.noise_seed": 0}),
        run_id(config, "test0", 0, {"data.noise_seed": 1}),
        run_id({"model": "y"}, "test0", 0, {}),
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 6


def test_other_figures_of_a_run_make_it_another(monkeypatch: pytest.MonkeyPatch) -> None:
    before = run_id({}, "test0", 0, {})
    monkeypatch.setattr(fingerprint, "_FIGURES", 2)
    assert run_id({}, "test0", 0, {}) != before


def own_data(**data: Any) -> dict[str, Any]:
    return what_matters({"data": data})


def test_own_data_counts_by_its_content(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "edges.csv").write_text("source,target\na,b\n")
        (tmp_path / name / "nodes.csv").write_text("id,label\na,1\nb,2\n")
    one, two = tmp_path / "one", tmp_path / "two"
    before = own_data(path=str(one))
    assert own_data(path=str(two)) == before
    (two / "edges.csv").write_text("source,target\nb,a\n")
    assert own_data(path=str(two)) != before
    (one / "nodes.csv").rename(one / "vertices.csv")
    assert own_data(path=str(one)) != before


def test_a_split_of_one_s_own_counts_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "split.npz"
    file.write_bytes(b"a")
    before = own_data(split_path=str(file))
    assert own_data(split_path=str(file)) == before
    file.write_bytes(b"b")
    assert own_data(split_path=str(file)) != before


@pytest.mark.parametrize("key", ["path", "split_path"])
def test_data_that_is_not_there_is_named(key: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "nowhere", tmp_path / "empty"):
        with pytest.raises(InputError, match=f"there is no file or folder {path}"):
            own_data(**{key: str(path)})


def test_the_configuration_that_is_asked_about_stays_as_it_is() -> None:
    config = {"seed_everything": 1, "data": {"split_seed": "test0", "root": "x", "train": 5}}
    assert what_matters(config) == {"data": {"train": 5}}
    assert config["data"] == {"split_seed": "test0", "root": "x", "train": 5}
