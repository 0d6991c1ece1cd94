"""The methods that can be run by name, and `pamt methods`, which lists them.

A method is a file in ``configs/baselines`` that is laid over the file of a data set; its first line
says what it is. Nothing here imports torch, so listing them takes no time.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from pamt_lightning.errors import InputError

DEFAULT_CLASS = "pamt_lightning.PAMTModule"

# How the literature writes them, in the order of the tables; a file with another name is listed
# after these, under its own.
_SPELLINGS = (
    *(
        "PAMT",
        "PAMT_plus",
        "PAMT_0",
        "PAMT_1",
        "PAMT_r",
        "MLP",
        "LabelPropagation",
        "GCN",
        "GAT",
        "RobustGCN",
    ),
    *("SGC", "APPNP", "PTS", "PTD", "PTA"),
)
# The tables of the paper have RGCN and SGCN.
_ALIASES = {"RobustGCN": "RGCN", "SGC": "SGCN", "LabelPropagation": "LP"}

_EPILOG = """\
run one:  pamt fit --config configs/cora_ml.yaml --model GAT
          pamt fit --data.path my_graph/ --model GAT --model.lr 0.01

Capitals, spaces, hyphens and underscores do not matter.
--model decides the class, wherever it stands; what config files hold for that class, or for no
class, wins over the method's file, except that PAMT_0, PAMT_1 and PAMT_r lie over all files;
what is typed (--model.lr) wins over everything.
`pamt methods NAME` shows the file, `pamt fit --model.help NAME` explains the options.
"""


@dataclass(frozen=True)
class Method:
    """One method.

    Attributes:
        name: How it is written.
        file: What is laid over the data set's file; PAMT needs none.
        description: One line on it.
        alias: What it is called elsewhere.
    """

    name: str
    file: Path | None
    description: str
    alias: str | None = None

    def class_path(self) -> str:
        """The class that computes it."""
        content = yaml.safe_load(self.file.read_text(encoding="utf-8")) if self.file else {}
        return str(content.get("model", {}).get("class_path", DEFAULT_CLASS))


def config_folder() -> Path:
    """The folder ``configs``: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def shipped_path(path: str) -> Path | None:
    """Where a shipped ``configs/...`` is, from whatever folder it is typed."""
    top, *rest = Path(path).parts or ("",)
    return config_folder().joinpath(*rest) if top == "configs" and ".." not in rest else None


def shipped_names() -> list[str]:
    """What `shipped_path` knows."""
    folder = config_folder()
    return [f"configs/{f.relative_to(folder).as_posix()}" for f in sorted(folder.rglob("*.yaml"))]


def methods() -> list[Method]:
    """All methods, PAMT first."""
    files = {_key(file.stem): file for file in (config_folder() / "baselines").glob("*.yaml")}
    spelling = {_key(name): name for name in _SPELLINGS}
    ranks = {key: rank for rank, key in enumerate(spelling)}
    ours = "the method of the paper, with the values of the data set's file"
    found = [Method("PAMT", None, ours)]
    for key in sorted(files, key=lambda key: (ranks.get(key, len(ranks)), key)):
        file = files[key]
        name = spelling.get(key, file.stem)
        found.append(Method(name, file, _description(file), _ALIASES.get(name)))
    return found


def find_method(name: str) -> Method | None:
    """The method of that name or alias, whatever its capitals, spaces, hyphens, underscores."""
    return _by_key().get(_key(name))


def unknown_method(name: str) -> InputError:
    """The error that says so, with the nearest name and all names."""
    known = _by_key()
    close = difflib.get_close_matches(_key(name), known, 1)
    hint = f" Did you mean {known[close[0]].name!r}?" if close else ""
    names = ", ".join(method.name for method in methods())
    return InputError(f"there is no method {name!r}.{hint} Methods: {names}.")


def run(argv: Sequence[str]) -> int:
    """Run ``pamt methods`` with the arguments that follow it."""
    parser = argparse.ArgumentParser(
        prog="pamt methods",
        description="The methods that `pamt fit --model NAME` runs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="show the file of this one")
    name: str | None = parser.parse_args(argv).name
    if name is None:
        listed = methods()
        width = max(len(method.name) for method in listed)
        for method in listed:
            alias = f", also {method.alias}" if method.alias else ""
            print(f"{method.name.ljust(width)}  {method.description}{alias}")
        print(f"\n{_EPILOG}", end="")
        return 0
    chosen = find_method(name)
    if chosen is None:
        raise unknown_method(name)
    if chosen.file is None:
        print(f"{chosen.name} has no file of its own: {chosen.description} (configs/*.yaml).")
        return 0
    print(f"# {chosen.file}\n{chosen.file.read_text(encoding='utf-8')}", end="")
    return 0


def _by_key() -> dict[str, Method]:
    """Methods by their names and aliases; a name comes before an alias."""
    known = methods()
    aliases = {_key(method.alias): method for method in known if method.alias}
    return aliases | {_key(method.name): method for method in known}


def _key(name: str) -> str:
    return re.sub(r"[-_\s]", "", name.lower())


def _description(file: Path) -> str:
    """The first line of a file, `# GAT (its paper): what it does.`, in the order for a list."""
    first, *_ = file.read_text(encoding="utf-8").splitlines() or [""]
    head, _, what = first.lstrip("# ").partition(": ")
    paper = re.search(r"\(.+\)", head)
    return f"{what.rstrip('.')} {paper[0]}" if paper else what.rstrip(".")
