"""Imports go one way: a module imports its own layer and those below, never above."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "litert_lm"

#: From the top down. Rooms of one row do not import each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli",),
    ("serve", "bench"),
    ("engine",),
    ("conversation",),
    ("first_load", "session", "model_info", "texts"),
    ("generate",),
    ("sampling", "executor", "tokenizer", "chat"),
    ("bundle",),
    ("embedding", "interfaces"),
    ("reply_config",),
    ("not_yet",),
    ("config", "heap", "logs", "results"),
    ("enums",),
    ("errors", "_proto"),
)
#: These stand beside the column: they import `bundle` and what is below it.
BESIDE = ("convert", "hub")
#: Beside the column: the command line drives both, and a pull converts.
ALLOWED = {(room, beside) for room in ("cli", "bench") for beside in BESIDE}
ALLOWED |= {("hub", "convert")}
#: Rooms inside rooms, from the top down; "" are the modules that are in none.
INNER_LAYERS = {
    "chat": ("", "tools", "parsers", "sandbox"),
    "executor": ("", "steps", "kv", "native", "patching", "layout"),
    "sampling": ("constraint", ""),
}


def level(room: str) -> int:
    names = [i for i, layer in enumerate(LAYERS) if room in layer]
    return names[0] if names else -1


def may_import(importer: str, imported: str) -> bool:
    if importer == imported or (importer, imported) in ALLOWED:
        return True
    if imported in BESIDE:
        return False
    if importer in BESIDE:
        return level(imported) >= level("bundle")
    return level(importer) < level(imported)


def imports(path: Path) -> Iterator[str]:
    """Rooms of the package that a module imports, be it later or for types only."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "litert_lm":
                names = [f"litert_lm.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("litert_lm."):
                yield name.split(".")[1]


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


MODULES = sorted(
    p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py" or p.parent != PACKAGE
)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    wrong = {
        imported
        for imported in imports(path)
        if level(imported) >= 0 or imported in BESIDE
        if not may_import(room(path), imported)
    }
    assert not wrong, f"{room(path)} imports {', '.join(sorted(wrong))}"


def test_every_room_has_a_layer() -> None:
    rooms = {room(path) for path in MODULES} - {"models"}
    known = {name for layer in LAYERS for name in layer} | set(BESIDE)
    assert rooms <= known


def inner_room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[1] if len(parts) > 2 else ""


@pytest.mark.parametrize("outer", INNER_LAYERS)
def test_imports_inside_a_room_go_down(outer: str) -> None:
    layers = INNER_LAYERS[outer]
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {used.relative_to(PACKAGE)}"
        for path in MODULES
        if room(path) == outer
        for used in module_imports(path)
        if room(used) == outer
        if layers.index(inner_room(path)) > layers.index(inner_room(used))
    ]
    assert not wrong


def test_modules_do_not_import_in_circles() -> None:
    """Within a room: modules as nodes, imports at load time as edges."""
    edges = {path: set(module_imports(path)) for path in MODULES}
    done: set[Path] = set()
    while ready := {
        path for path, used in edges.items() if path not in done and used <= done
    }:
        done |= ready
    assert not {str(path.relative_to(PACKAGE)) for path in edges if path not in done}


def module_imports(path: Path) -> Iterator[Path]:
    """Modules of the package that are imported when `path` is loaded."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "litert_lm"
        ):
            base = PACKAGE.parent / (node.module or "").replace(".", "/")
            candidates = [base / f"{alias.name}.py" for alias in node.names]
            candidates.append(base.with_suffix(".py"))
            yield from (c for c in candidates if c.is_file() and c != path)
