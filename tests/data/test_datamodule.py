from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from pamt_lightning.data import datamodule as module
from pamt_lightning.data.datamodule import GraphDataModule
from pamt_lightning.data.noise import structure_noise_rate
from pamt_lightning.data.published.registry import DATASETS
from pamt_lightning.data.scaling import normalize_rows
from pamt_lightning.data.splits import TEST_SEEDS, ppnp_split, random_split
from pamt_lightning.data.synthetic import SyntheticOptions, synthetic_graph
from pamt_lightning.errors import CheckpointError, InputError
from pamt_lightning.graph import Graph
from pamt_lightning.kernels.sharding import RowShare

SMALL = SyntheticOptions(num_nodes=300, num_classes=3, num_features=30, words_per_node=5.0)

NODES = """\
id,label,height,width
"Smith, J.",cat,1,3
Ünal,dog,0,0
0003,,-2,2
x,cat,5,0
y,dog,1,1
"""
EDGES = 'source,target\n"Smith, J.",Ünal\nÜnal,0003\nx,y\ny,0003\n'


def ready(stage: str = "fit", **options: Any) -> GraphDataModule:
    if not {"dataset", "path"} & set(options):
        options = {"synthetic": SMALL, **options}
    data = GraphDataModule(**options)
    data.setup(stage)
    return data


def indices(data: GraphDataModule) -> list[list[int]]:
    graph = data.graph
    parts = (graph.train_index, graph.val_index, graph.test_index)
    return [part.tolist() for part in parts if part is not None]


def adjacency(graph: Graph) -> sp.csr_array:
    return sp.csr_array(graph.adjacency.to_dense().numpy())


def model_state(class_names: list[str]) -> dict[str, Any]:
    return {"class_names": class_names, "feature_names": [], "scaling": {"kind": "none"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "my.graph"
    folder.mkdir()
    (folder / "nodes.csv").write_text(NODES, encoding="utf-8")
    (folder / "edges.csv").write_text(EDGES, encoding="utf-8")
    return folder


@pytest.fixture
def located(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Lets a synthetic graph stand in for published files; returns what was searched for."""
    calls: list[Any] = []
    raw = synthetic_graph(SyntheticOptions(5100, 15, 50, seed=1))
    monkeypatch.setattr(module, "locate", lambda *args, **options: calls.append((args, options)))
    monkeypatch.setattr(module, "read_dataset", lambda *_: raw)
    return calls


# Splits


def test_published_data_sets_have_the_published_split_and_known_sizes() -> None:
    for spec in DATASETS.values():
        data = GraphDataModule(spec.name)
        assert data.split_name == ("random" if spec.generated else "ppnp")
        if not spec.generated:
            assert (data.num_features, data.num_classes) == (spec.num_features, spec.num_classes)
    default = GraphDataModule()
    assert (default.dataset_name, default.split_seed) == ("synthetic", TEST_SEEDS[0])
    assert default.hparams["split_seed"] == TEST_SEEDS[0]  # not its name


def test_the_random_split_gets_all_its_sizes() -> None:
    data = ready(split_seed=5, train=4, val=0.2, test=30)
    assert data.split is not None
    expected = [part.tolist() for part in random_split(data.graph.y.numpy(), 5, 4, 0.2, 30)]
    assert indices(data) == expected == [part.tolist() for part in data.split]
    # The command line reads counts as floats.
    assert indices(ready(split_seed=5, train=4.0, val=0.2, test=30.0)) == expected


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"dataset": "cora_ml"}, (1500, 20, 500)),
        ({"dataset": "ms_academic"}, (5000, 20, 500)),
        ({"dataset": "cora_ml", "num_known": 900, "train": 3.0, "val": 50}, (900, 3, 50)),
    ],
)
@pytest.mark.parametrize("seed", ["test3", "val0"])
@pytest.mark.usefixtures("located")
def test_the_published_split_gets_all_its_sizes(
    options: dict[str, Any], sizes: tuple[int, int, int], seed: str
) -> None:
    data = ready(**options, split_seed=seed)
    expected = ppnp_split(data.raw.labels, data.split_seed, *sizes)
    assert indices(data) == [part.tolist() for part in expected]
    assert data.tested_on == ("test nodes" if seed == "test3" else "held-out nodes")


# Features and noise


@pytest.mark.parametrize("kind", [None, "none"])
def test_words_get_length_one_unless_scaling_is_left_out(kind: str | None) -> None:
    data = ready(scale_features=kind)
    raw = data.raw.features
    expected = raw if kind else normalize_rows(raw, "l2")
    assert isinstance(expected, sp.csr_array)
    np.testing.assert_array_equal(data.graph.x.to_dense().numpy(), expected.toarray())


def test_noise_reaches_its_rate_with_a_seed_of_its_own_and_leaves_all_else_alone() -> None:
    clean, noisy, split, seed = (
        ready(structure_noise=rate, noise_seed=a, split_seed=b)
        for rate, a, b in ((None, 1, 1), (0.5, 1, 1), (0.5, 1, 2), (0.5, 2, 1))
    )
    rate = structure_noise_rate(adjacency(noisy.graph), noisy.raw.labels)
    assert clean.achieved_noise is None
    assert noisy.achieved_noise == rate == pytest.approx(0.5, abs=1 / 750)
    assert torch.equal(noisy.graph.x.to_dense(), clean.graph.x.to_dense())
    assert abs(adjacency(split.graph) - adjacency(noisy.graph)).sum() == 0
    assert abs(adjacency(seed.graph) - adjacency(noisy.graph)).sum() > 0
    assert indices(seed) == indices(noisy) == indices(clean) != indices(split)


# Graphs of one's own


def test_an_own_folder_with_index_files_goes_through_to_the_end(
    folder: Path, tmp_path: Path
) -> None:
    split = tmp_path / "split"
    split.mkdir()
    for name, ids in (("train", "y\nSmith, J.\n"), ("val", "Ünal\n"), ("test", "x\n")):
        (split / f"{name}.txt").write_text(ids, encoding="utf-8")
    assert GraphDataModule(path=str(folder)).split_name == "random"
    data = GraphDataModule(path=str(folder), split_path=str(split), scale_features="l1")
    assert (data.num_features, data.num_classes, data.split_name) == (2, 2, "given")
    data.setup("fit")
    graph = data.graph
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ["Smith, J.", "Ünal", "0003", "x", "y"]
    assert graph.class_names == ("cat", "dog")
    assert graph.y.tolist() == [0, 1, -1, 0, 1]
    assert graph.x.tolist() == [[0.25, 0.75], [0, 0], [-0.5, 0.5], [1, 0], [0.5, 0.5]]
    assert adjacency(graph).toarray().sum() == 8
    assert indices(data) == [[4, 0], [1], [3]]
    state = data.state_dict()
    assert state["dataset"] == "my.graph"
    assert set(state["hashes"]) == {"edges.csv", "nodes.csv"}


@pytest.mark.parametrize("name", ["first.npz", "First.NPZ"])
def test_an_own_file_brings_its_own_split(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        np.savez(
            file,
            edges=np.array([[0, 1], [1, 2], [2, 3]]),
            features=np.eye(4),
            labels=np.array([0, 1, 0, 1]),
            train_index=np.array([0, 1]),
            val_index=np.array([2]),
            test_index=np.array([3]),
        )
    data = ready(path=str(path), split="given")
    assert data.dataset_name == name[:-4]
    assert indices(data) == [[0, 1], [2], [3]]


def test_errors_of_a_split_name_the_graph_or_its_file(folder: Path) -> None:
    with pytest.raises(InputError, match=r"needs index files .*'my.graph' has none"):
        ready(path=str(folder), split="given")
    where = re.escape(f"{folder / 'nodes.csv'}: ")
    with pytest.raises(InputError, match=f"^{where}Class 0 .'cat'. has 2 labelled nodes"):
        ready(path=str(folder))
    (folder / "nodes.csv").write_text(NODES.replace("dog", ""), encoding="utf-8")
    with pytest.raises(InputError, match=f"^{where}training needs .* two classes, found 1"):
        _ = GraphDataModule(path=str(folder)).num_classes


def test_a_prediction_needs_no_labels_and_no_split(folder: Path) -> None:
    nodes = "\n".join(re.sub(",(cat|dog),", ",,", line) for line in NODES.splitlines())
    (folder / "nodes.csv").write_text(nodes, encoding="utf-8")
    data = GraphDataModule(path=str(folder))
    data.match_model(model_state(["cat", "dog", "eel"]))
    data.setup("predict")
    assert data.split is None
    assert data.graph.train_index is None
    assert data.graph.y.tolist() == [-1] * 5
    assert data.num_classes == 3
    with pytest.raises(InputError, match="No node has a label"):
        data.setup("fit")


def test_a_split_may_come_after_a_prediction() -> None:
    data = ready("predict")
    assert data.full_batch().graph.train_index is None
    data.setup("test")
    assert data.full_batch().graph.test_index is not None
    assert indices(data) == indices(ready("fit"))
    graph = data.graph
    data.setup("fit")
    assert data.graph is graph


# Data of a trained model


def test_classes_are_numbered_as_the_trained_model_does(folder: Path) -> None:
    data = GraphDataModule(path=str(folder))
    data.match_model(model_state(["dog", "bee", "cat"]))
    data.setup("predict")
    assert data.graph.y.tolist() == [2, 0, -1, 2, 0]
    assert data.graph.class_names == ("dog", "bee", "cat")
    assert data.num_classes == 3
    assert data.raw.labels.tolist() == [0, 1, -1, 0, 1]
    data.match_model(model_state(["cat", "bee"]))
    with pytest.raises(CheckpointError, match=r"my\.graph has class 'dog', .*: cat, bee"):
        data.setup("predict")


def test_columns_are_ordered_and_scaled_as_the_trained_model_does(folder: Path) -> None:
    trained = ready(path=str(folder), train=1, val=1)
    lines = [line.rsplit(",", 2) for line in NODES.splitlines()]
    swapped = "\n".join(f"{start},{width},{height}" for start, height, width in lines[:-1])
    (folder / "nodes.csv").write_text(swapped + "\ny,dog,1,50", encoding="utf-8")
    data = GraphDataModule(path=str(folder))
    data.match_model(trained.state_dict())
    data.setup("predict")
    torch.testing.assert_close(data.graph.x[:-1], trained.graph.x[:-1])
    assert data.state_dict()["feature_names"] == ["height", "width"]


@pytest.mark.parametrize("stage", ["fit", "predict"])
def test_a_model_may_be_matched_after_setup(stage: str) -> None:
    data = ready(stage)
    before = data.full_batch().graph.y
    data.match_model(model_state(["class_2", "class_1", "class_0"]))
    data.setup(stage)
    assert torch.equal(data.graph.y, 2 - before)
    assert torch.equal(data.full_batch().graph.y, 2 - before)


# Hyper-parameters and state


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"synthetic": SMALL, "structure_noise": 0.5, "split_seed": 3, "train": 0.2},
        {"dataset": "pubmed", "root": "data", "split": "random"},
        {"dataset": "pubmed", "root": [Path("one"), "two"]},
        {"path": Path("mine"), "split_path": Path("split")},
    ],
)
def test_hyper_parameters_are_plain_and_make_the_same_data_module(
    options: dict[str, Any], tmp_path: Path
) -> None:
    data = GraphDataModule(**options)
    hparams = dict(data.hparams)
    torch.save(hparams, tmp_path / "hparams.pt")
    loaded = torch.load(tmp_path / "hparams.pt", weights_only=True)
    assert loaded == hparams
    assert set(loaded) == set(inspect.signature(GraphDataModule.__init__).parameters) - {
        "self",
        "graph",
    }
    again = GraphDataModule(**loaded)
    assert dict(again.hparams) == hparams
    assert again.split_name == data.split_name


@pytest.mark.parametrize(
    ("root", "roots"),
    [(None, []), ("a", ["a"]), (Path("a"), ["a"]), (["a", Path("b")], ["a", "b"])],
)
def test_published_files_are_searched_for_once(
    root: Any, roots: list[str], located: list[Any]
) -> None:
    GraphDataModule().prepare_data()
    data = GraphDataModule("pubmed", root=root, offline=True)
    data.prepare_data()
    assert data.raw.num_nodes == 5100
    data.setup("predict")
    # Absolute: a checkpoint is used from other folders too.
    paths = [str(Path(r).absolute()) for r in roots]
    assert located == [((DATASETS["pubmed"], paths), {"offline": True})]


def test_synthetic_options_reach_the_generator() -> None:
    options = replace(SMALL, seed=9, homophily=0.5)
    data, expected = GraphDataModule(synthetic=options), synthetic_graph(options)
    with pytest.raises(RuntimeError, match="call `setup` first"):
        _ = data.graph
    np.testing.assert_array_equal(data.raw.adjacency.indices, expected.adjacency.indices)
    assert (data.num_features, data.num_classes) == (30, 3)


def test_the_state_says_which_data_it_was(tmp_path: Path) -> None:
    data = ready()
    state = data.state_dict()
    assert state == {
        "fingerprint": data.graph.fingerprint(),
        "feature_names": [],
        "scaling": {"kind": "l2", "mean": None, "std": None},
        "dataset": "synthetic",
        "class_names": ["class_0", "class_1", "class_2"],
        "num_nodes": 300,
        "hashes": {},
    }
    torch.save(state, tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt", weights_only=True) == state


@pytest.mark.parametrize(
    ("key", "value"), [("dataset", "pubmed"), ("num_nodes", 299), ("hashes", {"a": "b"})]
)
def test_a_training_is_not_resumed_on_other_data(key: str, value: object) -> None:
    data: Any = ready()
    state = data.state_dict()
    data.trainer = SimpleNamespace(state=SimpleNamespace(fn="fit"))
    data.load_state_dict(state)
    with pytest.raises(CheckpointError, match=f"{key} was {value}, now it is {state[key]}"):
        data.load_state_dict(state | {key: value})
    data.trainer = SimpleNamespace(state=SimpleNamespace(fn="test"))
    data.load_state_dict(state | {key: value})


# Batches


@pytest.mark.parametrize(("batch_size", "effective"), [(None, None), (10**6, None), (100, 100)])
def test_loaders_yield_the_full_batch_or_train_on_all_nodes_in_batches(
    batch_size: int | None, effective: int | None
) -> None:
    data = ready(batch_size=batch_size)
    before, full = torch.get_rng_state(), data.full_batch()
    assert data.effective_batch_size == full.batch_size == effective
    assert full.graph is data.graph
    for loader in (data.val_dataloader(), data.test_dataloader(), data.predict_dataloader()):
        assert list(loader) == [full]
    train = list(data.train_dataloader())
    if effective is None:
        assert train == [full]
    else:
        nodes = torch.cat([batch.nodes for batch in train if batch.nodes is not None])
        assert torch.equal(nodes.sort().values, torch.arange(300))
    assert torch.equal(torch.get_rng_state(), before)


def trainer_on(precision: str, rank: int = 0, world_size: int = 1) -> Any:
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    return SimpleNamespace(
        strategy=strategy, precision=precision, global_rank=rank, world_size=world_size
    )


def test_the_full_batch_is_built_once_for_a_precision_and_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RowShare, "gather", lambda self, part: part.new_ones(self.num_rows))
    data: Any = ready()
    with torch.inference_mode():
        plain = data.full_batch()
    assert not plain.adj_norm.values.is_inference()  # it can be trained on
    assert (plain.device.type, plain.dtype) == ("cpu", torch.float32)
    data.trainer = trainer_on("32-true")
    assert data.full_batch() is plain
    data.trainer = trainer_on("64-true")
    double = data.full_batch()
    assert double.dtype == double.train_x.values.dtype == torch.float64
    data.trainer = trainer_on("32-true", rank=1, world_size=3)
    assert data.full_batch().rows.local == slice(100, 200)


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dataset": "pubmed", "path": "mine"},
            "one of `dataset`, `path` and `graph`.*'pubmed'.*'mine'",
        ),
        (
            {"split": "planetoid"},
            "`split` must be one of ppnp, random, given, all, got 'planetoid'",
        ),
        ({"split": "ppnp", "split_path": "here"}, "`split_path` .* `split`='given', got 'ppnp'"),
        ({"split_seed": "test20"}, "`split_seed` .*got 'test20'"),
        ({"num_known": 100}, "`num_known` goes with `split`='ppnp', got 'random'"),
        ({"dataset": "pubmed", "test": 10}, "`split`='ppnp' .* leave out `test`, got 10"),
        ({"structure_noise": 1.1}, "`structure_noise` .* got 1.1"),
        ({"noise_seed": -1}, "`noise_seed` must be a whole number .* got -1"),
        ({"batch_size": 0}, "`batch_size` must be a whole number .* got 0"),
        ({"synthetic": {"num_node": 3}}, "`synthetic`.*num_node"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_read(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        GraphDataModule(**options)
