from __future__ import annotations

import dataclasses
import inspect
import os
import re
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
from pamt_lightning.data.raw import RawGraph
from pamt_lightning.data.scaling import l1_normalize
from pamt_lightning.data.splits import (
    TEST_SEEDS,
    VALIDATION_SEEDS,
    Split,
    ppnp_split,
    random_split,
)
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


def small(**options: Any) -> GraphDataModule:
    return GraphDataModule(synthetic=SMALL, **options)


def ready(stage: str = "fit", **options: Any) -> GraphDataModule:
    data = small(**options)
    data.setup(stage)
    return data


def indices(data: GraphDataModule) -> list[list[int]]:
    graph = data.graph
    parts = (graph.train_index, graph.val_index, graph.test_index)
    return [part.tolist() for part in parts if part is not None]


def parts(split: Split) -> list[list[int]]:
    return [part.tolist() for part in (split.train, split.val, split.test)]


def edges(graph: Graph) -> sp.csr_array:
    adj = graph.adjacency
    arrays = (adj.values().numpy(), adj.col_indices().numpy(), adj.crow_indices().numpy())
    return sp.csr_array(arrays, shape=(graph.num_nodes, graph.num_nodes))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "my.graph"
    folder.mkdir()
    (folder / "nodes.csv").write_text(NODES, encoding="utf-8")
    (folder / "edges.csv").write_text(EDGES, encoding="utf-8")
    return folder


@pytest.fixture
def split_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "split"
    folder.mkdir()
    for name, ids in (("train", "y\nSmith, J.\n"), ("val", "Ünal\n"), ("test", "x\n")):
        (folder / f"{name}.txt").write_text(ids, encoding="utf-8")
    return folder


@pytest.fixture
def cora_like(monkeypatch: pytest.MonkeyPatch) -> RawGraph:
    """What stands in for the file of a published data set."""
    raw = synthetic_graph(2000, 7, 50, seed=1)
    monkeypatch.setattr(module, "locate", lambda *_, **__: None)
    monkeypatch.setattr(module, "read_dataset", lambda *_: raw)
    return raw


# Splits


def test_nothing_at_all_is_the_synthetic_graph_with_a_random_split() -> None:
    data = GraphDataModule()
    assert (data.dataset_name, data.split_name) == ("synthetic", "random")
    assert data.split_seed == TEST_SEEDS[0]


@pytest.mark.parametrize("name", [name for name in DATASETS if name != "synthetic"])
def test_published_data_sets_have_the_published_split_and_known_sizes(name: str) -> None:
    data, spec = GraphDataModule(name), DATASETS[name]
    assert data.split_name == "ppnp"
    assert (data.num_features, data.num_classes) == (spec.num_features, spec.num_classes)


def test_an_own_graph_has_a_random_split_and_index_files_a_given_one(
    folder: Path, split_folder: Path
) -> None:
    assert GraphDataModule(path=str(folder)).split_name == "random"
    for split in (None, "given"):
        data = GraphDataModule(path=str(folder), split=split, split_path=str(split_folder))
        assert data.split_name == "given"


def test_the_random_split_gets_all_its_sizes() -> None:
    data = ready(split_seed=5, train=4, val=0.2, test=30)
    assert data.split is not None
    expected = random_split(data.graph.y.numpy(), 5, train=4, val=0.2, test=30)
    assert indices(data) == parts(expected) == parts(data.split)
    assert [len(part) for part in indices(data)] == [12, 60, 30]


def test_counts_that_the_command_line_reads_as_4_0_are_counts() -> None:
    as_numbers = ready(train=4.0, val=60.0, test=30.0)
    assert indices(as_numbers) == indices(ready(train=4, val=60, test=30))


@pytest.mark.parametrize("train", [1.5, 0.0, -2.0])
def test_counts_that_are_neither_whole_nor_shares_are_refused(train: float) -> None:
    message = "`train` must be a count (a whole number from 1) or a share between 0 and 1, got"
    with pytest.raises(InputError, match=re.escape(f"{message} {train}")):
        ready(train=train)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, (1500, 20, 500)),
        ({"num_known": 900, "train": 3, "val": 50}, (900, 3, 50)),
    ],
)
def test_the_published_split_gets_all_its_sizes(
    cora_like: RawGraph, options: dict[str, int], sizes: tuple[int, int, int]
) -> None:
    data = GraphDataModule("cora_ml", split_seed="test3", **options)  # type: ignore[arg-type]
    data.setup("fit")
    assert indices(data) == parts(ppnp_split(cora_like.labels, TEST_SEEDS[3], *sizes))


def test_ms_academic_has_more_known_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = synthetic_graph(5100, 15, 50, seed=1)
    monkeypatch.setattr(module, "locate", lambda *_, **__: None)
    monkeypatch.setattr(module, "read_dataset", lambda *_: raw)
    data = GraphDataModule("ms_academic")
    data.setup("fit")
    assert [len(part) for part in indices(data)] == [300, 500, 100]


def test_the_number_of_known_nodes_may_not_be_zero(cora_like: RawGraph) -> None:
    with pytest.raises(InputError, match="`num_known` must be a whole number from 1"):
        GraphDataModule("cora_ml", num_known=0).setup("fit")


@pytest.mark.parametrize("options", [{"train": 0.1}, {"val": 0.2}, {"test": 10}])
def test_the_published_split_takes_no_shares_and_no_test_size(
    cora_like: RawGraph, options: dict[str, Any]
) -> None:
    message = "`split`='ppnp' takes whole numbers for `train` and `val` and none for `test`"
    with pytest.raises(InputError, match=re.escape(message)):
        GraphDataModule("cora_ml", **options).setup("fit")


@pytest.mark.parametrize(
    ("name", "seed"), [("test0", TEST_SEEDS[0]), ("val19", VALIDATION_SEEDS[19]), (7, 7)]
)
def test_seeds_go_by_name_or_number(name: int | str, seed: int) -> None:
    data = ready(split_seed=name)
    assert data.split_seed == seed
    assert indices(data) == indices(ready(split_seed=seed))
    assert data.hparams["split_seed"] == seed  # a checkpoint means the same without the list


def test_another_seed_gives_another_split_of_the_same_graph() -> None:
    one, two = ready(split_seed="test0"), ready(split_seed="test1")
    assert indices(one) != indices(two)
    assert torch.equal(one.graph.x.values(), two.graph.x.values())


# Features


@pytest.mark.parametrize("normalize", [True, False])
def test_normalisation_of_features_can_be_left_out(normalize: bool) -> None:
    data = ready(scale_features=None if normalize else "none")
    raw = data.raw.features
    assert isinstance(raw, sp.csr_array)
    expected = l1_normalize(raw) if normalize else raw
    assert isinstance(expected, sp.csr_array)
    np.testing.assert_array_equal(data.graph.x.to_dense().numpy(), expected.toarray())
    sums = data.graph.x.to_dense().sum(1)
    assert torch.allclose(sums, torch.ones(300)) == normalize


# Noise


def test_structure_noise_reaches_its_rate_and_leaves_features_and_split_alone() -> None:
    clean, noisy = ready(), ready(structure_noise=0.5)
    rate = structure_noise_rate(edges(noisy.graph), noisy.raw.labels)
    assert clean.achieved_noise is None
    assert noisy.achieved_noise == rate == pytest.approx(0.5, abs=1 / 750)
    assert structure_noise_rate(edges(clean.graph), clean.raw.labels) < 0.3
    assert noisy.graph.num_edges == clean.graph.num_edges
    assert torch.equal(noisy.graph.x.to_dense(), clean.graph.x.to_dense())
    assert indices(noisy) == indices(clean)


def test_noise_and_split_have_seeds_of_their_own() -> None:
    start = ready(structure_noise=0.5, noise_seed=1, split_seed=1)
    other_split = ready(structure_noise=0.5, noise_seed=1, split_seed=2)
    other_noise = ready(structure_noise=0.5, noise_seed=2, split_seed=1)
    start_edges = start.graph.adjacency.col_indices()
    assert torch.equal(other_split.graph.adjacency.col_indices(), start_edges)
    assert not torch.equal(other_noise.graph.adjacency.col_indices(), start_edges)
    assert indices(other_noise) == indices(start)
    assert indices(other_split) != indices(start)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_of_noise_must_lie_in_its_range(rate: float) -> None:
    message = f"`structure_noise` must lie in [0, 1], got {rate}."
    with pytest.raises(InputError, match=re.escape(message)):
        small(structure_noise=rate)


# Graphs of one's own


def test_an_own_folder_with_index_files_goes_through_to_the_end(
    folder: Path, split_folder: Path
) -> None:
    data = GraphDataModule(path=str(folder), split_path=str(split_folder), scale_features="l1")
    assert (data.num_features, data.num_classes) == (2, 2)
    data.prepare_data()
    data.setup("fit")
    graph = data.graph
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ["Smith, J.", "Ünal", "0003", "x", "y"]
    assert graph.class_names == ("cat", "dog")
    assert graph.y.tolist() == [0, 1, -1, 0, 1]
    assert graph.x.tolist() == [[0.25, 0.75], [0, 0], [-0.5, 0.5], [1, 0], [0.5, 0.5]]
    assert edges(graph).toarray().sum() == 8
    assert indices(data) == [[4, 0], [1], [3]]
    state = data.state_dict()
    assert state["dataset"] == "my.graph"
    assert set(state["hashes"]) == {"edges.csv", "nodes.csv"}


@pytest.mark.parametrize("name", ["first.npz", "First.NPZ"])
def test_an_own_file_brings_its_own_split(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    np.savez(
        path.with_suffix(".npz"),
        edges=np.array([[0, 1], [1, 2], [2, 3]]),
        features=np.eye(4),
        labels=np.array([0, 1, 0, 1]),
        train_index=np.array([0, 1]),
        val_index=np.array([2]),
        test_index=np.array([3]),
    )
    if path.suffix != ".npz":
        path.with_suffix(".npz").rename(path)
    data = GraphDataModule(path=str(path), split="given")
    data.setup("fit")
    assert data.dataset_name == path.name[:-4]
    assert indices(data) == [[0, 1], [2], [3]]


def test_a_given_split_that_is_nowhere_is_an_error(folder: Path) -> None:
    data = GraphDataModule(path=str(folder), split="given")
    message = "`split`='given' needs index files (`split_path`), or an .npz with train_index"
    with pytest.raises(InputError, match=re.escape(message)) as error:
        data.setup("fit")
    assert "'my.graph' has none" in str(error.value)


def test_a_prediction_needs_no_labels_and_no_split(folder: Path) -> None:
    nodes = "\n".join(re.sub(",(cat|dog),", ",,", line) for line in NODES.splitlines())
    (folder / "nodes.csv").write_text(nodes, encoding="utf-8")
    data = GraphDataModule(path=str(folder))
    data.expect_classes(["cat", "dog", "eel"])
    data.setup("predict")
    assert data.split is None
    assert data.graph.train_index is None
    assert data.graph.y.tolist() == [-1] * 5
    assert data.graph.class_names == ("cat", "dog", "eel")
    assert data.num_classes == 3
    with pytest.raises(InputError, match="No node has a label"):
        data.setup("fit")


def test_a_split_may_come_after_a_prediction() -> None:
    data = ready("predict")
    assert data.full_batch().graph.train_index is None
    data.setup("test")
    assert data.full_batch().graph.test_index is not None
    assert indices(data) == indices(ready("fit"))


# Classes of a trained model


def test_classes_are_numbered_as_the_trained_model_does(folder: Path) -> None:
    data = GraphDataModule(path=str(folder))
    data.expect_classes(["dog", "bee", "cat"])
    data.setup("predict")
    assert data.graph.y.tolist() == [2, 0, -1, 2, 0]
    assert data.graph.class_names == ("dog", "bee", "cat")
    assert data.num_classes == 3
    assert data.raw.labels.tolist() == [0, 1, -1, 0, 1]


@pytest.mark.parametrize("stage", ["fit", "predict"])
def test_expected_classes_count_after_setup_too(stage: str) -> None:
    data = ready(stage)
    before = data.full_batch().graph.y
    data.expect_classes(["class_2", "class_1", "class_0"])
    data.setup(stage)
    assert torch.equal(data.graph.y, 2 - before)
    assert torch.equal(data.full_batch().graph.y, 2 - before)


def test_a_class_that_the_trained_model_does_not_know_is_an_error(folder: Path) -> None:
    data = GraphDataModule(path=str(folder))
    data.expect_classes(["cat", "bee"])
    message = (
        "my.graph has class 'dog', which the trained model does not know (its classes: cat, bee)."
    )
    with pytest.raises(CheckpointError, match=re.escape(message)):
        data.setup("predict")


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
    assert set(loaded) == set(inspect.signature(GraphDataModule.__init__).parameters) - {"self"}
    again = GraphDataModule(**loaded)
    assert dict(again.hparams) == hparams
    assert again.split_name == data.split_name


@pytest.mark.parametrize(
    ("root", "roots"),
    [
        (None, []),
        ("a", ["a"]),
        (Path("a"), ["a"]),
        (["a", Path("b")], ["a", "b"]),
    ],
)
def test_one_folder_or_several_may_be_named(root: Any, roots: list[str]) -> None:
    # Absolute: a checkpoint is used from other folders too.
    assert GraphDataModule("pubmed", root=root).roots == [str(Path(r).absolute()) for r in roots]


def test_folders_and_offline_reach_the_search_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(module, "locate", lambda *args, **options: calls.append((args, options)))
    monkeypatch.setattr(module, "read_dataset", lambda *_: synthetic_graph(100, 2, 20, seed=0))
    data = GraphDataModule("pubmed", root=["here"], offline=True)
    data.prepare_data()
    assert data.raw.num_nodes == 100
    data.setup("predict")
    # Once: reading and hashing large files takes seconds.
    assert calls == [((DATASETS["pubmed"], [str(Path("here").absolute())]), {"offline": True})]


def test_generated_and_own_graphs_need_no_files_fetched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("files were looked for")

    monkeypatch.setattr(module, "locate", refuse)
    small().prepare_data()
    GraphDataModule(path=str(folder)).prepare_data()


def test_the_defaults_of_the_synthetic_options_are_those_of_the_generator() -> None:
    signature = inspect.signature(synthetic_graph).parameters
    expected = {name: parameter.default for name, parameter in signature.items()}
    assert dataclasses.asdict(SyntheticOptions()) == expected


def test_wrong_synthetic_options_are_refused() -> None:
    with pytest.raises(InputError, match=r"`synthetic`.*num_node"):
        GraphDataModule(synthetic={"num_node": 3})  # type: ignore[arg-type]


def test_synthetic_options_reach_the_generator() -> None:
    data = GraphDataModule(synthetic=dataclasses.replace(SMALL, seed=9, homophily=0.5))
    expected = synthetic_graph(300, 3, 30, words_per_node=5.0, seed=9, homophily=0.5)
    np.testing.assert_array_equal(data.raw.adjacency.indices, expected.adjacency.indices)
    assert (data.num_features, data.num_classes) == (30, 3)


def test_the_state_says_which_data_it_was(tmp_path: Path) -> None:
    data = ready()
    state = data.state_dict()
    assert state == {
        "fingerprint": data.graph.fingerprint(),
        "feature_names": [],
        "scaling": {"kind": "l1", "mean": None, "std": None},
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
    message = f"This training was started on other data: {key} was {value}, now it is {state[key]}."
    with pytest.raises(CheckpointError, match=re.escape(message)):
        data.load_state_dict(state | {key: value})
    data.trainer = SimpleNamespace(state=SimpleNamespace(fn="test"))
    data.load_state_dict(state | {key: value})


# Batches


def loaders(data: GraphDataModule) -> list[Any]:
    names = ("train", "val", "test", "predict")
    return [getattr(data, f"{name}_dataloader")() for name in names]


def test_all_loaders_yield_the_full_batch_without_any_random_number() -> None:
    data = ready()
    before = torch.get_rng_state()
    for loader in loaders(data):
        assert list(loader) == [data.full_batch()]
    assert data.full_batch().graph is data.graph
    assert torch.equal(torch.get_rng_state(), before)


def trainer_on(device: str, precision: str, rank: int = 0, world_size: int = 1) -> Any:
    strategy = SimpleNamespace(root_device=torch.device(device))
    return SimpleNamespace(
        strategy=strategy, precision=precision, global_rank=rank, world_size=world_size
    )


def test_the_full_batch_is_built_once_for_a_device_a_precision_and_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RowShare, "gather", lambda self, part: part.new_ones(self.num_rows))
    data: Any = ready()
    plain = data.full_batch()
    assert (plain.device.type, plain.dtype) == ("cpu", torch.float32)
    data.trainer = trainer_on("cpu", "32-true")
    assert data.full_batch() is plain
    data.trainer = trainer_on("cpu", "64-true")
    double = data.full_batch()
    assert double.dtype == double.train_x.values.dtype == torch.float64
    data.trainer = trainer_on("cpu", "32-true", rank=1, world_size=3)
    assert data.full_batch().rows.local == slice(100, 200)
    data.trainer = None
    data.expect_classes(["class_2", "class_1", "class_0"])
    data.setup("fit")
    assert torch.equal(data.full_batch().graph.y, 2 - plain.graph.y)


def test_a_batch_built_in_inference_mode_can_be_trained_on() -> None:
    data = ready()
    with torch.inference_mode():
        batch = data.full_batch()
    assert not batch.adj_norm.values.is_inference()


@pytest.mark.parametrize(("batch_size", "effective"), [(None, None), (10**6, None), (100, 100)])
def test_a_batch_of_all_nodes_is_no_batch(batch_size: int | None, effective: int | None) -> None:
    data = ready(batch_size=batch_size)
    assert data.effective_batch_size == data.full_batch().batch_size == effective
    train, *others = loaders(data)
    assert [len(loader) for loader in others] == [1, 1, 1]
    nodes = [batch.nodes for batch in train]
    if effective is None:
        assert nodes == [None]
    else:
        assert torch.equal(torch.cat(nodes).sort().values, torch.arange(300))


def test_the_graph_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def draw(**options: Any) -> RawGraph:
        calls.append(options)
        return synthetic_graph(**options)

    monkeypatch.setattr(module, "synthetic_graph", draw)
    data = ready()
    graph = data.graph
    data.setup("test")
    assert data.graph is graph
    assert data.num_classes == 3
    assert len(calls) == 1


# What is refused


def test_there_is_no_graph_before_setup() -> None:
    with pytest.raises(RuntimeError, match="call `setup` first"):
        _ = small().graph


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dataset": "pubmed", "path": "mine"},
            "Give `dataset` or `path`, not both, got 'pubmed' and 'mine'.",
        ),
        ({"dataset": "pubmet"}, "There is no data set 'pubmet'. Did you mean 'pubmed'"),
        ({"split": "planetoid"}, "`split` must be one of ppnp, random, given, got 'planetoid'."),
        (
            {"split": "ppnp", "split_path": "here"},
            "`split_path` goes with `split`='given', got 'ppnp'.",
        ),
        ({"split_seed": "test20"}, "`split_seed` must be a number, or the name of a published"),
        ({"split_seed": -1}, "`split_seed` must be a whole number from 0 to 4294967295, got -1."),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_read(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        GraphDataModule(**options)


@pytest.mark.skipif(
    "PAMT_TEST_DATA" not in os.environ, reason="PAMT_TEST_DATA names no data folder"
)
def test_validation_seeds_never_touch_the_test_nodes() -> None:
    root = os.environ["PAMT_TEST_DATA"]
    report = GraphDataModule(dataset="cora_ml", root=root, offline=True)
    choose = GraphDataModule(dataset="cora_ml", root=root, offline=True, split_seed="val0")
    for data in (report, choose):
        data.setup("fit")
    assert report.split is not None
    assert choose.split is not None
    assert not set(report.split.test.tolist()) & set(choose.split.test.tolist())
    assert len(choose.split.test) == 1500 - 140 - 500
    assert (report.tested_on, choose.tested_on) == ("test nodes", "held-out nodes")


def test_num_known_goes_with_the_published_protocol_only() -> None:
    with pytest.raises(InputError, match="`num_known` goes with `split`='ppnp', got 'random'"):
        GraphDataModule(num_known=100)
