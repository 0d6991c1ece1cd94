"""``pamt datasets convert``: a graph as a store of arrays that are mapped instead of read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pamt_lightning.data.published.registry import DATASETS, get_spec
from pamt_lightning.data.synthetic_options import SyntheticOptions
from pamt_lightning.errors import InputError

_DESCRIPTION = """\
Write a graph as a folder of plain .npy arrays with a header. `--data.path FOLDER` then maps them:
opening takes no time, and with `--data.batch_size` attributes are read from disk as they are
needed. `pamt datasets verify FOLDER` checks every byte of it.
"""
_EPILOG = """\
examples:
  pamt datasets convert my_graph/ my_store
  pamt datasets convert pubmed pubmed_store
  pamt datasets convert synthetic big --num_nodes 1000000 --num_features 128 --average_degree 20
"""


def add_parser(actions: Any, common: argparse.ArgumentParser) -> None:
    """Add ``convert`` to the actions of `pamt datasets`."""
    parser = actions.add_parser(
        "convert",
        parents=[common],
        help="write a graph as a store that is mapped, not read",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source", metavar="SOURCE", help="a data set by name, or an .npz file or folder of your own"
    )
    parser.add_argument("folder", metavar="FOLDER", help="the store; it must not exist")
    parser.add_argument(
        "--scale_features",
        choices=("l1", "standard", "none"),
        help="as in `pamt fit`; default l1 for sparse attributes, standard for dense ones",
    )
    parser.add_argument("--offline", action="store_true", help="never touch the network")
    group = parser.add_argument_group("if SOURCE is `synthetic`")
    for field in fields(SyntheticOptions):
        group.add_argument(
            f"--{field.name}",
            type=type(field.default),
            metavar="N",
            default=argparse.SUPPRESS,
            help=f"default {field.default}",
        )


def convert(arguments: argparse.Namespace, roots: Sequence[str]) -> int:
    """Run it."""
    names = {field.name for field in fields(SyntheticOptions)}
    typed = {name: value for name, value in vars(arguments).items() if name in names}
    source, folder = str(arguments.source), Path(arguments.folder)
    own = source not in DATASETS and Path(source).exists()
    spec = None if own else get_spec(source)
    if typed and (spec is None or not spec.generated):
        raise InputError(f"--{min(typed)} goes with the source `synthetic`, got {source!r}.")
    if spec is not None and spec.generated:
        from pamt_lightning.data.store.synthetic import write_synthetic

        options = SyntheticOptions(**{**asdict(SyntheticOptions()), **typed})
        write_synthetic(folder, options, arguments.scale_features)
    else:
        from pamt_lightning.data.own.read import read_own_graph
        from pamt_lightning.data.published.download import locate
        from pamt_lightning.data.published.readers import read_dataset
        from pamt_lightning.data.store.writer import write_store

        if spec is None:
            raw = read_own_graph(source)
        else:
            raw = read_dataset(spec, locate(spec, roots, offline=arguments.offline))
        write_store(raw, folder, scale_features=arguments.scale_features)
    print(f"{folder}: {_described(folder)}")
    return 0


def verify_store(folder: Path) -> int:
    """Check every byte of a store and say what it holds."""
    from pamt_lightning.data.store.reader import GraphStore

    GraphStore.open(folder).verify()
    print(f"{folder}  good     {_described(folder)}")
    return 0


def _described(folder: Path) -> str:
    from pamt_lightning.data.store.reader import GraphStore

    store = GraphStore.open(folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    kind = "dense" if "features" in store.arrays else "sparse"
    return (
        f"{store.num_nodes:,} nodes, {store.num_edges:,} edges, {store.num_features:,} "
        f"{kind} attributes, {len(store.header['class_names'])} classes, {size / 1e6:,.1f} MB"
    )
