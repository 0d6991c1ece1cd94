from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import pamt_lightning
from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.estimator import PAMTClassifier
from pamt_lightning.graph import Graph

FAST = {"max_epochs": 15}


@pytest.fixture(scope="module")
def graph(small_graph: Graph) -> Graph:
    """The labels of every third node are known; the classes are named by texts."""
    y = small_graph.y.clone()
    y[torch.arange(300) % 3 > 0] = -1
    names = ("ant", "bee", "cat", "dog")
    return replace(
        small_graph, y=y, class_names=names, train_index=None, val_index=None, test_index=None
    )


@pytest.fixture(scope="module")
def hidden(small_graph: Graph) -> Any:
    names = np.array(["ant", "bee", "cat", "dog"])
    return names[small_graph.y.numpy()], np.arange(300) % 3 > 0


@pytest.fixture(scope="module")
def fitted(graph: Graph) -> PAMTClassifier:
    return PAMTClassifier("PAMT", trainer=FAST).fit(graph)


def test_fitting_a_graph_classifies_all_its_nodes(
    fitted: PAMTClassifier, graph: Graph, hidden: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    truth, is_hidden = hidden
    found = fitted.predict()
    assert found.shape == (300,)
    assert np.mean(found[is_hidden] == truth[is_hidden]) > 0.6
    assert fitted.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert fitted.probabilities_.sum(axis=1) == pytest.approx(np.ones(300), abs=1e-5)
    assert fitted.n_features_in_ == graph.num_features
    assert fitted.result_["labels"]["known"] == 100
    assert fitted.result_["folds"] == 5
    low, high = fitted.accuracy_interval_
    assert 0.5 < low < fitted.accuracy_ < high <= 1
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "")


def test_the_frame_names_nodes_classes_and_probabilities(fitted: PAMTClassifier) -> None:
    frame = fitted.predict_frame()
    assert list(frame.columns) == [
        *("node_id", "class", "probability", "p_ant", "p_bee", "p_cat", "p_dog"),
    ]
    assert frame["class"].tolist() == fitted.predict().tolist()
    assert frame["node_id"].tolist() == list(range(300))


def test_three_ways_to_fit_give_the_same_model(fitted: PAMTClassifier, graph: Graph) -> None:
    adjacency = torch.Tensor.to_dense(graph.adjacency).numpy()
    x, y = graph.x.to_dense().numpy(), graph.labels
    plain = PAMTClassifier("PAMT", trainer=FAST).fit(x, y, adjacency=adjacency)
    same = pytest.approx(fitted.probabilities_, abs=1e-3)  # sums of several threads
    assert plain.probabilities_ == same
    nodes = np.flatnonzero(graph.y.numpy() >= 0)
    by_id = PAMTClassifier("PAMT", graph=graph, trainer=FAST).fit(nodes, y[nodes])
    assert by_id.probabilities_ == same
    assert by_id.predict(nodes[:5]).tolist() == fitted.predict()[nodes[:5]].tolist()
    assert by_id.predict_proba(nodes[:5, None]).shape == (5, 4)


@pytest.mark.parametrize("unknown", [-1, None, float("nan"), ""])
def test_an_unknown_label_may_be_written_in_four_ways(
    unknown: Any, graph: Graph, fitted: PAMTClassifier
) -> None:
    y = np.array([unknown if each is None else each for each in graph.labels], dtype=object)
    adjacency = torch.Tensor.to_dense(graph.adjacency).numpy()
    found = PAMTClassifier("PAMT", trainer={"max_epochs": 2}).fit(graph.x, y, adjacency)
    assert found.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert found.result_["labels"] == fitted.result_["labels"]


def test_labels_keep_their_type(graph: Graph) -> None:
    nodes, y = np.arange(0, 300, 3), graph.y.numpy()[::3]
    for labels in (y, y.astype(float), y > 1, y.astype(np.uint8)):
        found = PAMTClassifier("SGC", graph=graph, trainer={"max_epochs": 2}).fit(nodes, labels)
        assert found.predict(nodes).dtype == labels.dtype
        assert set(found.predict(nodes)) <= set(labels)


def test_labels_of_several_types_missing_texts_and_blanks_are_understood(graph: Graph) -> None:
    nodes = np.arange(0, 300, 3)
    y = graph.y.numpy()[nodes]
    texts = np.array(["a", " b", "c", "1"])[y]
    mixed = np.array([1 if each == "1" else each.strip() for each in texts], dtype=object)
    clf = PAMTClassifier("SGC", graph=graph, folds=2, trainer={"max_epochs": 2})
    for labels in (texts, mixed, pd.Series(texts, dtype="string")):
        found = clf.fit(nodes, labels)
        assert [str(each) for each in found.classes_] == ["1", "a", "b", "c"]
        assert sum(found.result_["labels"]["per_class"].values()) == 100
    gaps = pd.Series(texts, dtype="string").where(pd.Series(y != 0))
    for labels in (gaps, np.where(y == 0, "nan", texts), np.where(y == 0, " ", texts)):
        assert len(clf.fit(nodes, labels).classes_) == 3


def test_the_score_compares_labels_whatever_their_type(graph: Graph) -> None:
    numbered = replace(graph, class_names=("0", "1", "2", "3"))
    clf = PAMTClassifier("SGC", folds=2, trainer=FAST).fit(numbered)
    known = graph.y.numpy() >= 0
    right = np.mean(clf.predict()[known] == graph.y.numpy()[known].astype(str))
    for y in (graph.y.numpy(), graph.y.numpy().astype(float)):
        assert clf.score(numbered, y) == pytest.approx(right)  # -1 does not count
    with pytest.raises(InputError, match="no label to compare with"):
        clf.score(numbered, np.full(300, -1))


def test_random_numbers_of_the_caller_are_left_alone(graph: Graph) -> None:
    def numbers() -> list[float]:
        return [np.random.random(), random.random(), float(torch.rand(()))]

    def seeded(fit: bool, state: Any = 0) -> list[float]:
        np.random.seed(0)
        random.seed(0)
        torch.manual_seed(0)
        if fit:
            PAMTClassifier("SGC", folds=2, random_state=state, trainer={"max_epochs": 1}).fit(graph)
        return numbers()

    assert seeded(True) == seeded(False)
    for state in (None, np.random.RandomState(3)):
        seeded(True, state)


def test_attributes_that_replace_those_of_a_table_are_used() -> None:
    nodes = pd.DataFrame({"id": range(40), "label": ["a", "b"] * 20, "k": ["u", "v"] * 20})
    edges = pd.DataFrame({"source": range(39), "target": range(1, 40)})
    graph = Graph.from_pandas(nodes, edges)
    clf = PAMTClassifier("MLP", folds=2, trainer={"max_epochs": 20}).fit(graph)
    other = replace(graph, x=graph.x.flip(1))
    assert not np.array_equal(clf.predict_proba(other), clf.predict_proba(graph))


def test_another_graph_is_scaled_as_the_training_graph(graph: Graph) -> None:
    dense = replace(graph, x=graph.x.to_dense() + 1)
    clf = PAMTClassifier("GCN", trainer=FAST).fit(dense)
    assert clf.predict_proba(dense) == pytest.approx(clf.probabilities_, abs=1e-6)
    part = np.arange(150)
    adjacency = torch.Tensor.to_dense(dense.adjacency).numpy()[:150, :150]
    some = Graph.from_scipy(dense.x[:150], adjacency, node_ids=part + 1000)
    frame = clf.predict_frame(some)
    assert frame["node_id"].tolist() == (part + 1000).tolist()
    found = clf.predict_proba(dense.x[:150].numpy(), adjacency)
    assert np.array_equal(found, clf.predict_proba(some))
    with pytest.raises(InputError, match=r"X has 3 features, but PAMTClassifier is expecting 60"):
        clf.predict(np.ones((2, 3)))


@pytest.mark.parametrize("method", ["PAMT_plus", "LabelPropagation", "GCN"])
def test_a_saved_classifier_predicts_the_same(method: str, graph: Graph, tmp_path: Path) -> None:
    clf = PAMTClassifier(method, trainer={"max_epochs": 6}).fit(
        replace(graph, x=graph.x.to_dense() + 1)
    )
    clf.save(tmp_path / "clf.npz")
    assert [file.name for file in tmp_path.iterdir()] == ["clf.npz"]
    again = PAMTClassifier.load(tmp_path / "clf.npz")
    assert again.get_params() == clf.get_params()
    assert np.array_equal(again.predict(), clf.predict())
    assert again.predict_frame().equals(clf.predict_frame())
    other = replace(graph, x=graph.x.to_dense() * 2)
    assert np.array_equal(again.predict_proba(other), clf.predict_proba(other))
    assert again.result_["val_acc"] == clf.result_["val_acc"]


def test_a_damaged_or_foreign_file_is_refused(fitted: PAMTClassifier, tmp_path: Path) -> None:
    file = tmp_path / "clf.npz"
    fitted.save(file)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / "damaged.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"damaged\.npz"):
        PAMTClassifier.load(tmp_path / "damaged.npz")
    np.savez(tmp_path / "other.npz", a=np.ones(2))
    with pytest.raises(CheckpointError, match=r"other\.npz is not a classifier of pamt"):
        PAMTClassifier.load(tmp_path / "other.npz")
    arrays = dict(np.load(file))
    arrays["header"] = np.array(
        str(arrays["header"]).replace("pamt_lightning.PAMTModule", "os.system")
    )
    np.savez(tmp_path / "hostile.npz", **arrays)
    with pytest.raises(CheckpointError, match=r"os\.system is not a method of this package"):
        PAMTClassifier.load(tmp_path / "hostile.npz")


def test_parameters_are_those_of_the_constructor() -> None:
    clf = PAMTClassifier("GCN", model={"lr": 0.1}, random_state=3)
    assert clf.get_params()["model__lr"] == 0.1
    assert clf.set_params(model__dropout=0.2, method="GAT") is clf
    assert clf.model == {"lr": 0.1, "dropout": 0.2}
    assert repr(clf) == (
        "PAMTClassifier(method='GAT', model={'lr': 0.1, 'dropout': 0.2}, random_state=3)"
    )
    for name in ("nothing", "method__a"):
        with pytest.raises(InputError, match=f"no parameter '{name}'"):
            clf.set_params(**{name: 1})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda clf, g: clf.fit(g, y=[1]), "give it alone"),
        (lambda clf, g: clf.fit(g.x), "requires y to be passed"),
        (lambda clf, g: clf.fit(g.x, [-1] * 300), "at least two classes, got no label"),
        (lambda clf, g: clf.fit(g.x, np.linspace(0, 1, 300)), "Unknown label type"),
        (lambda clf, g: clf.fit(g.x, [0] * 299 + [1, 1]), "301"),
        (lambda clf, g: clf.set_params(graph=g).fit([0, 999], [0, 1]), "among the nodes, got 999"),
        (lambda clf, g: clf.set_params(graph=g).fit([0, 1], [0, 1]), "no class has two labelled"),
        (lambda clf, g: clf.set_params(method="GNC").fit(g), "no method 'GNC'. Did you mean"),
        (lambda clf, g: clf.set_params(model__alfa=1).fit(g), "model.alfa"),
        (lambda clf, g: clf.set_params(folds=1).fit(g), "`folds` must be"),
    ],
)
def test_wrong_input_is_refused(call: Any, message: str, graph: Graph) -> None:
    with pytest.raises(InputError, match=message):
        call(PAMTClassifier("GCN", trainer=FAST), graph)


def test_using_it_before_it_is_fitted_is_an_error() -> None:
    for call in ("predict", "predict_proba", "predict_frame"):
        with pytest.raises(ValueError, match="not fitted yet"):
            getattr(PAMTClassifier(), call)()


def test_one_line_classifies_a_graph(graph: Graph) -> None:
    frame = pamt_lightning.classify(graph, "SGC", trainer=FAST)
    assert len(frame) == 300
    assert set(frame["class"]) <= {"ant", "bee", "cat", "dog"}


# scikit-learn -------------------------------------------------------------------------------


def test_it_works_in_cross_validation_and_grid_search(graph: Graph) -> None:
    model_selection = pytest.importorskip("sklearn.model_selection")
    clone = pytest.importorskip("sklearn.base").clone
    nodes = np.flatnonzero(graph.y.numpy() >= 0)
    y = graph.labels[nodes].astype(str)
    clf = PAMTClassifier("SGC", graph=graph, folds=2, trainer=FAST)
    assert clone(clf).get_params() == clf.get_params()
    scores = model_selection.cross_val_score(clf, nodes, y, cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.5
    options = {"model__lr": [0.01, 0.2], "model__weight_decay": [1e-5]}
    search = model_selection.GridSearchCV(clf, options, cv=2).fit(nodes, y)
    assert search.best_params_["model__lr"] in (0.01, 0.2)
    assert search.best_estimator_.model["weight_decay"] == 1e-5
    assert search.predict(nodes).shape == y.shape
    assert search.score(nodes, y) > 0.5


def test_it_is_a_classifier_to_scikit_learn(fitted: PAMTClassifier) -> None:
    base = pytest.importorskip("sklearn.base")
    validation = pytest.importorskip("sklearn.utils.validation")
    assert base.is_classifier(fitted)
    validation.check_is_fitted(fitted)
    with pytest.raises(pytest.importorskip("sklearn.exceptions").NotFittedError):
        validation.check_is_fitted(PAMTClassifier())


# Checks of scikit-learn's `check_estimator` that do not apply, with the reason.
NOT_APPLICABLE = {
    "check_classifiers_classes": "its classes are -1 and 1; -1 is an unknown label here",
    "check_methods_sample_order_invariance": "products in float32 differ in the last bits",
    "check_supervised_y_2d": "a column of labels is taken without a warning",
}


@pytest.mark.filterwarnings("ignore:Estimator PAMTClassifier does not inherit")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_the_checks_of_scikit_learn_that_apply_hold() -> None:
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    clf = PAMTClassifier(
        "MLP", folds=2, trainer={"max_epochs": 20}, model={"hidden_dim": 16, "lr": 0.05}
    )
    results = checks.check_estimator(clf, on_fail=None, on_skip=None)
    failed = {
        each["check_name"]: f"{type(each['exception']).__name__}: {each['exception']}"
        for each in results
        if each["status"] == "failed" and each["check_name"] not in NOT_APPLICABLE
    }
    assert not failed
    assert sum(each["status"] == "passed" for each in results) > 30
