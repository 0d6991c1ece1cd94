"""What a run is: plain values that can be written down, sent to another process and compared."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import yaml

from pamt_lightning.errors import InputError, did_you_mean
from pamt_lightning.files import write_whole
from pamt_lightning.methods.registry import DEFAULT, Method, find_method
from pamt_lightning.training.layers import dataset_file, make_layer, merge, nested, resolve

CONFIG = "config.yaml"  # of a run's folder
TRAINER_DEFAULTS: dict[str, Any] = {
    "max_epochs": 2000,
    "devices": 1,
    "num_sanity_val_steps": 0,  # costs an inference and checks nothing new
    "log_every_n_steps": 1,
    "enable_model_summary": False,
}
SIZES = ("num_features", "num_classes")  # of a model: those of the data
BY_RUN = {*SIZES, "dirpath", "graph"}  # arguments that a run sets itself
# Options that do not affect results: where files are and what is shown.
NO_EFFECT = {
    "model": ("log_every_n_epochs",),
    "data": ("root", "offline"),
    "stopping": ("save_seconds", "dirpath"),
    "trainer": (
        *("logger", "enable_progress_bar", "default_root_dir", "enable_model_summary"),
        *("log_every_n_steps", "profiler", "enable_autolog_hparams"),
    ),
}
# Options that came later, with defaults that leave older results as they are: a run that has these
# values is still the same run. `train` was 20 where it is None now.
SINCE_RESULTS = {
    "folds": 5,
    "fold": None,
    "columns": None,
    "edge_weights": True,
    "repeated_edges": None,
    "opposite_edges": "max",
}
OLD_TRAIN = 20


@dataclass(frozen=True)
class RunConfig:
    """One run.

    `RunConfig.create` fills in the values of the method and the data set.
    """

    method: str  # the name in results, as the user chose it
    model: Mapping[str, Any]  # class_path, and init_args without the sizes, which the data have
    data: Mapping[str, Any] = field(default_factory=dict)  # arguments of `GraphDataModule`
    stopping: Mapping[str, Any] = field(default_factory=dict)  # arguments of `BestStopping`
    trainer: Mapping[str, Any] = field(default_factory=lambda: dict(TRAINER_DEFAULTS))
    seed: int = 0  # of the initialisation and of the training
    test: bool = True  # whether the best state is tested after the training

    @classmethod
    def create(
        cls,
        method: str | None = None,
        *,
        dataset: str | None = None,
        data: Mapping[str, Any] | None = None,
        model: Mapping[str, Any] | None = None,
        stopping: Mapping[str, Any] | None = None,
        trainer: Mapping[str, Any] | None = None,
        seed: int | None = None,
        test: bool | None = None,
    ) -> RunConfig:
        """A run as ``pamt fit --config configs/DATASET.yaml --model METHOD`` has it.

        ``method`` is a name (`pamt methods`) or the path of a class; unless given, that of the
        config file, else PAMT. ``dataset`` is a name (`pamt datasets`) or a config file. The other
        arguments override the files.
        """
        files = [] if dataset is None else [dataset_file(dataset)]
        resolved = resolve(files, method, data)
        content = resolved.merged()
        given = {"data": data, "model": model, "stopping": stopping, "trainer": trainer}
        for section, values in given.items():
            merge(content.setdefault(section, {}), values or {})
        single = {"seed_everything": seed, "test_after_fit": test}
        content |= {name: value for name, value in single.items() if value is not None}
        return cls.from_sections(resolved.model, content)

    @classmethod
    def from_sections(cls, model: Method, content: Mapping[str, Any]) -> RunConfig:
        """A run from the sections of a config file, its model section being the arguments."""
        init_args = {name: _plain(value) for name, value in (content.get("model") or {}).items()}
        return cls(
            method=model.name,
            model={"class_path": model.class_path, "init_args": init_args},
            data=dict(content.get("data", {})),
            stopping=dict(content.get("stopping", {})),
            trainer={**TRAINER_DEFAULTS, **content.get("trainer", {})},
            seed=int(content.get("seed_everything", 0)),
            test=bool(content.get("test_after_fit", True)),
        )

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> RunConfig:
        """The run that `to_dict` describes."""
        layer = make_layer("the configuration", content)
        return cls.from_sections(layer.model or DEFAULT, layer.content)

    def to_dict(self) -> dict[str, Any]:
        """The run as ``config.yaml`` holds it: a method of the package is named, not its class."""
        method, class_path = find_method(self.method), self.model["class_path"]
        if method is not None and method.class_path == class_path:
            class_path = method.name
        content = {
            "seed_everything": self.seed,
            "data": dict(self.data),
            "model": {"class_path": class_path, "init_args": dict(self.model["init_args"])},
            "stopping": dict(self.stopping),
            "trainer": dict(self.trainer),
            "test_after_fit": self.test,
        }
        # Plain values, also of the arguments of callbacks, which may be enumerations or paths.
        plain: dict[str, Any] = json.loads(json.dumps(content, default=str))
        return plain

    def to_yaml(self) -> str:
        """The run as a config file for ``pamt fit --config``."""
        return str(yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True))

    def save(self, path: Path) -> None:
        """Write the config file."""
        write_whole(path, lambda file: file.write(self.to_yaml()))

    def with_options(self, options: Mapping[str, Any]) -> RunConfig:
        """The same run with other values of options such as ``model.alpha``."""
        names = ("data", "stopping", "trainer", "seed")
        content: dict[str, Any] = {name: getattr(self, name) for name in names}
        content["model"] = self.model["init_args"]
        changes = nested(options)
        if "seed_everything" in changes:
            changes["seed"] = changes.pop("seed_everything")
        if unknown := changes.keys() - content.keys():
            raise InputError(f"there is no option {min(unknown)!r}.")
        merge(content, changes)
        content["model"] = {**self.model, "init_args": content["model"]}
        return replace(self, **content)

    def complete(self) -> RunConfig:
        """The same run with the defaults of data, model and stopping filled in.

        An `InputError` names a class or an argument that does not exist.
        """
        from pamt_lightning.data.datamodule import GraphDataModule
        from pamt_lightning.training.stopping import BestStopping

        cls = import_class(str(self.model["class_path"]))
        init_args = _completed(cls, "model", self.model["init_args"])
        return replace(
            self,
            model={**self.model, "init_args": init_args},
            data=_completed(GraphDataModule, "data", self.data),
            stopping=_completed(BestStopping, "stopping", self.stopping),
        )


def import_class(class_path: str) -> type[Any]:
    """The class with that path."""
    try:
        found = resolve_name(class_path)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"there is no class {class_path}: {error}.") from None
    if not isinstance(found, type):
        raise InputError(f"{class_path} is not a class.")
    return found


def arguments(cls: type[Any]) -> dict[str, inspect.Parameter]:
    """The arguments of a class that users set; ``**options`` stands for those of its base."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        parameters = inspect.signature(base).parameters
        named = {k: p for k, p in parameters.items() if p.kind is not p.VAR_KEYWORD}
        found = {**named, **found}
        if len(named) == len(parameters):
            break
    return {k: p for k, p in found.items() if k not in BY_RUN}


def require_option(cls: type[Any], option: str, name: str) -> None:
    """Refuse an option whose class has no argument of that name."""
    known = arguments(cls)
    if name not in known:
        raise InputError(f"there is no option {option}.{did_you_mean(name, known)}")


def _completed(cls: type[Any], section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    for name in values:
        require_option(cls, f"{section}.{name}", name)
    defaults = {k: p.default for k, p in arguments(cls).items() if p.default is not p.empty}
    complete = {**defaults, **values}
    return {name: _plain(value) for name, value in complete.items()}


def _plain(value: Any) -> Any:
    """A value as files hold it: not a pair, not the dataclass of the synthetic graph."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return list(value) if isinstance(value, tuple) else value
