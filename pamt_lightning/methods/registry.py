"""The methods by name. Nothing here imports torch, so that listing them takes no time.

A new method needs its class, its test, a file in ``configs/baselines`` and a line in `METHODS`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from pamt_lightning.errors import InputError


@dataclass(frozen=True)
class Method:
    """One method.

    Attributes:
        name: How it is written in tables and on the command line.
        class_path: Its class; the defaults of the constructor are the defaults of the method.
        help: One line for `pamt methods`.
        config: Its file in ``configs/``: values for single data sets, or what a variant changes.
        alias: Its name elsewhere.
        is_variant: Whether ``config`` overrides the files of the data sets instead of lying below
            them: a variant changes one part of PAMT and keeps the rest.
        results_version: Raised whenever the method's results change, so that results computed
            before are not taken for current ones.
        oldest_format: Checkpoints of older formats hold another network and are refused.
    """

    name: str
    class_path: str
    help: str
    config: str | None = None
    alias: str | None = None
    is_variant: bool = False
    results_version: int = 2
    oldest_format: int = 0

    @property
    def file(self) -> Path | None:
        """Where ``config`` is on this machine."""
        return None if self.config is None else config_folder() / self.config


def _baseline(name: str, help: str, *, file: str = "", alias: str | None = None) -> Method:
    config = f"baselines/{file or name.lower()}.yaml"
    return Method(name, f"pamt_lightning.{name}Module", help, config, alias)


def _variant(name: str, help: str) -> Method:
    config = f"baselines/{name.lower()}.yaml"
    return Method(name, "pamt_lightning.PAMTModule", help, config, is_variant=True)


METHODS = (
    Method("PAMT", "pamt_lightning.PAMTModule", "the method of the paper"),
    Method(
        "PAMT_plus",
        "pamt_lightning.PAMTPlusModule",
        "several views of graph and attributes, pooled; not the paper's",
        "baselines/pamt_plus.yaml",
        results_version=3,
        oldest_format=4,
    ),
    _variant("PAMT_0", "PAMT with the first mask kept, no refresh"),
    _variant("PAMT_1", "PAMT with refresh but without momentum"),
    _variant("PAMT_r", "PAMT whose first mask comes from an untrained MLP"),
    _baseline("MLP", "the attributes alone, without the graph"),
    _baseline(
        "LabelPropagation",
        "the graph alone, nothing is learned",
        file="label_propagation",
        alias="LP",
    ),
    _baseline("GCN", "two graph convolutions (Kipf and Welling 2017)"),
    _baseline("GAT", "attention over the neighbours (Veličković et al. 2018)"),
    _baseline(
        "RobustGCN",
        "Gaussian hidden states, uncertain neighbours count less (Zhu et al. 2019)",
        file="robust_gcn",
        alias="RGCN",
    ),
    _baseline("SGC", "logistic regression on propagated attributes (Wu et al. 2019)", alias="SGCN"),
    _baseline("APPNP", "an MLP trained through propagation (Gasteiger et al. 2019)"),
    _baseline("PTS", "labels propagated once, then an MLP trained on them (Dong et al. 2021)"),
    _baseline("PTD", "PTS with each label weighted by the MLP's probability (Dong et al. 2021)"),
    _baseline("PTA", "PTS with weights that trust the MLP more over time (Dong et al. 2021)"),
)
DEFAULT = METHODS[0]


def find_method(name: str) -> Method | None:
    """The method with that name or alias; capitals, spaces, hyphens, underscores do not matter."""
    return _by_key().get(_key(name))


def method_of_class(class_path: str) -> Method | None:
    """The first method that a class computes, by its full path or its bare name."""
    name = class_path.rpartition(".")[2]
    ours = "." not in class_path or class_path.startswith("pamt_lightning.")
    found = [m for m in METHODS if ours and m.class_path.rpartition(".")[2] == name]
    return found[0] if found else None


def unknown_method(name: str) -> InputError:
    """An error with the closest name and all names."""
    known = _by_key()
    close = difflib.get_close_matches(_key(name), known, 1)
    hint = f" Did you mean {known[close[0]].name!r}?" if close else ""
    names = ", ".join(method.name for method in METHODS)
    return InputError(f"there is no method {name!r}.{hint} Methods: {names}.")


def config_folder() -> Path:
    """The folder ``configs``: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def find_config(name: str, what: str = "config file") -> Path:
    """The file with that path; ``configs/…`` means the shipped file if there is none here."""
    if Path(name).is_file():
        return Path(name)
    top, *rest = Path(name).parts or ("",)
    shipped = config_folder().joinpath(*rest)
    if top == "configs" and ".." not in rest and shipped.is_file():
        return shipped
    folder = config_folder()
    known = [str(file) for file in sorted(Path(name).parent.glob("*.yaml")) if file.name[0] != "."]
    known += [f"configs/{f.relative_to(folder).as_posix()}" for f in sorted(folder.rglob("*.yaml"))]
    alike = [each for each in known if Path(each).name == Path(name).name]
    alike += difflib.get_close_matches(name, known, 1, 0.8)
    nearby = [each for each in known if Path(each).parent == Path(name).parent]
    hint = f" In that folder: {', '.join(nearby)}." if nearby else ""
    hint = f" Did you mean {alike[0]}?" if alike else hint
    raise InputError(f"there is no {what} {name}.{hint}")


def _by_key() -> dict[str, Method]:
    """Methods by name and alias; a name wins over an alias."""
    aliases = {_key(method.alias): method for method in METHODS if method.alias}
    return aliases | {_key(method.name): method for method in METHODS}


def _key(name: str) -> str:
    return re.sub(r"[-_\s]", "", name.lower())
