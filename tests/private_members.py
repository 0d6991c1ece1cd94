"""Finds uses of private members of other libraries in source code."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

_OURS = ("pamt_lightning", "__main__", "example")
_OWN_OBJECTS = ("self", "cls")


def is_private(name: str) -> bool:
    """Whether the name has a leading underscore and is no ``__special__`` name."""
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def defined_names(tree: ast.AST) -> set[str]:
    """Private names that the source defines: functions, classes, variables and attributes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return {name for name in found if is_private(name)}


def for_typing_only(tree: ast.AST) -> set[ast.AST]:
    """What runs under ``if TYPE_CHECKING`` only."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    checked = [block for block in blocks if "TYPE_CHECKING" in ast.unparse(block.test)]
    return {inner for block in checked for inner in ast.walk(block)}


@cache
def private_names(cls: type[Any]) -> frozenset[str]:
    """Private members of a class of another library, with what its methods set on ``self``."""
    found = {name for name in vars(cls) if is_private(name)}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):  # written in C
        return frozenset(found)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
            and is_private(node.attr)
        ):
            found.add(node.attr)
    return frozenset(found)


def inherited(cls: ast.ClassDef, namespace: Mapping[str, Any]) -> dict[str, str]:
    """Private names that a class has from other libraries, and from which class."""
    found: dict[str, str] = {}
    for base in cls.bases:
        try:
            value = eval(ast.unparse(base), dict(namespace))
        except Exception:  # a class of a function, or a generic one
            continue
        for each in inspect.getmro(value) if inspect.isclass(value) else ():
            if each.__module__.split(".")[0] not in (*_OURS, "builtins", "typing", "abc"):
                found |= dict.fromkeys(private_names(each), f"{each.__module__}.{each.__name__}")
    return found


def private_uses(
    tree: ast.AST, namespace: Mapping[str, Any], ours: Collection[str]
) -> Iterator[str]:
    """Private members of other libraries that the source reads, calls, sets or overrides.

    Args:
        tree: The source.
        namespace: The module after its import, to look up base classes and modules.
        ours: Private names that the package defines.
    """
    unused = for_typing_only(tree)
    for node in (node for node in ast.walk(tree) if node not in unused):
        if isinstance(node, ast.ImportFrom) and not _is_ours(node.module):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from (f"from {node.module} import {name}" for name in names if is_private(name))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if any(is_private(part) for part in alias.name.split(".")):
                    yield f"import {alias.name}"
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            yield from _attribute(node.value, node.attr, namespace, ours)
        elif isinstance(node, ast.Call) and _is_named(node.func, "getattr", "setattr", "hasattr"):
            name = node.args[1] if len(node.args) > 1 else None
            if isinstance(name, ast.Constant) and is_private(str(name.value)):
                yield from _attribute(node.args[0], str(name.value), namespace, ours)
        elif isinstance(node, ast.ClassDef):
            theirs = inherited(node, namespace)
            for inner in ast.walk(node):
                member = _member(inner)
                if member in theirs:
                    yield f"{node.name}.{member} of {theirs[member]}"


def _attribute(
    value: ast.expr, name: str, namespace: Mapping[str, Any], ours: Collection[str]
) -> Iterator[str]:
    target = namespace.get(value.id) if isinstance(value, ast.Name) else None
    if isinstance(target, ModuleType) or inspect.isclass(target):
        module = target.__name__ if isinstance(target, ModuleType) else target.__module__
        if not _is_ours(module):
            yield f"{ast.unparse(value)}.{name}"
            return
    if name not in ours:
        yield f"{ast.unparse(value)}.{name}"


def _member(node: ast.AST) -> str | None:
    """The name of a method, a class variable or an attribute of ``self``."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name
    if isinstance(node, ast.Attribute):
        value = node.value
        is_super = isinstance(value, ast.Call) and _is_named(value.func, "super")
        return node.attr if is_super or _is_named(value, *_OWN_OBJECTS) else None
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None


def _is_named(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_ours(module: str | None) -> bool:
    return (module or "").split(".")[0] in _OURS


def in_example(source: str) -> list[str]:
    """The private uses in a piece of source that is run."""
    tree = ast.parse(textwrap.dedent(source))
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(tree, "example", "exec"), namespace)
    return list(private_uses(tree, namespace, defined_names(tree)))
