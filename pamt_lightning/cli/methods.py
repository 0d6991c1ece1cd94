"""`pamt methods`: list the methods that ``--model`` takes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pamt_lightning.cli.arguments import Parser
from pamt_lightning.methods.registry import METHODS, find_method, unknown_method

_EPILOG = """\
run one:  pamt fit --config configs/cora_ml.yaml --model GAT
          pamt fit --data.path my_graph/ --model GAT --model.lr 0.01

Capitals, spaces, hyphens and underscores do not matter.
Command-line options override config files, and these override the method's own file; only the
files of PAMT_0, PAMT_1 and PAMT_r override all other files.
`pamt methods NAME` shows the file, `pamt fit --model.help NAME` explains the options.
"""


def run_methods(args: Sequence[str]) -> int:
    """Run ``pamt methods`` with the arguments that follow it."""
    about = "The methods that `pamt fit --model NAME` runs."
    parser = Parser(prog="pamt methods", description=about, epilog=_EPILOG)
    parser.add_argument("name", nargs="?", metavar="NAME", help="show the file of this method")
    parser.add_argument("--json", action="store_true", help="print all methods for programs")
    options = parser.parse_args(args)
    name: str | None = options.name
    if options.json:
        names = ("name", "alias", "class_path", "help", "config")
        print(json.dumps([{n: getattr(m, n) for n in names} for m in METHODS], indent=2))
        return 0
    if name is None:
        width = max(len(method.name) for method in METHODS)
        for method in METHODS:
            alias = f", also {method.alias}" if method.alias else ""
            print(f"{method.name.ljust(width)}  {method.help}{alias}")
        print(f"\n{_EPILOG}", end="")
        return 0
    chosen = find_method(name)
    if chosen is None:
        raise unknown_method(name)
    if chosen.file is None:
        print(f"{chosen.name}: {chosen.help}; its values are in the files of the data sets.")
    else:
        print(f"# {chosen.file}\n{chosen.file.read_text(encoding='utf-8')}", end="")
    return 0
