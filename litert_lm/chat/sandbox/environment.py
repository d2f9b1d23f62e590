"""A Jinja environment for chat templates: their dialect, inside `budget`'s limits."""

from __future__ import annotations

from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from litert_lm.chat.sandbox.budget import as_list, charge, check_size, spend_steps
from litert_lm.chat.sandbox.filters import FILTERS, check_format, joined, replaced

__all__ = ["TemplateEnvironment"]

_MAX_POWER_BITS = 4096
_MAX_NEEDLE = 256
_MACRO_STEPS = 50
_SLOW_WITH_LONG_NEEDLES = ("strip", "lstrip", "rstrip", "rsplit", "rpartition")

_TEXT_METHODS = (
    "capitalize",
    "casefold",
    "count",
    "endswith",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
)

#: Methods a template may call, by type; none of them has a side effect.
_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(_TEXT_METHODS),
    dict: frozenset(("copy", "get", "items", "keys", "values")),
    list: frozenset(("copy", "count", "index")),
    tuple: frozenset(("count", "index")),
    LoopContext: frozenset(("changed", "cycle")),
}


#: Results whose size cannot be seen: iterators, and a dict's views.
_UNSIZED = (Iterator, KeysView, ValuesView, ItemsView)


class _GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}` marks a reply for training only."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The block's body, as if the tag were not there."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _SilentNamespace(Namespace):
    """Prints no contents: those would escape the size check before printing."""

    def __repr__(self) -> str:
        return "<namespace>"


class _Guards(NodeTransformer):
    """Puts checks where the template language itself lets values or time grow."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        """Charge a loop for its length times the size of its body."""
        weight = sum(1 for _ in node.find_all(nodes.Node))
        self.generic_visit(node)
        node.iter = _filter(node.iter, "_loop", nodes.Const(weight))
        tick = _filter(nodes.Const(None), "_tick")
        node.body.insert(0, nodes.ExprStmt(tick, lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        """`a ~ b` never reaches Jinja's own unchecked joining."""
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes, lineno=node.lineno), "_concat")

    def visit_List(self, node: nodes.List | nodes.Tuple | nodes.Dict) -> nodes.Node:
        """Nesting is charged where it happens, so that comparing stays cheap."""
        self.generic_visit(node)
        is_target = isinstance(node, nodes.Tuple) and node.ctx != "load"
        is_constant = node.find(nodes.Name) is None
        return node if is_target or is_constant else _filter(node, "_nested")

    visit_Dict = visit_List
    visit_Tuple = visit_List

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        """A slice is a copy."""
        self.generic_visit(node)
        is_copy = isinstance(node.arg, nodes.Slice)
        return _filter(node, "_copied") if is_copy else node

    def visit_ScopedEvalContextModifier(self, node: nodes.Node) -> nodes.Node:
        """`{% autoescape %}` has no use in a prompt."""
        raise SecurityError("autoescape is not supported in chat templates")


def _filter(node: nodes.Node, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The dialect of Hugging Face chat templates, for templates one cannot trust."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[LoopControlExtension, _GenerationTag],
            finalize=_printable,
        )
        bounded_range = self.globals["range"]
        self.globals = {"range": bounded_range, "dict": dict, **functions}
        self.globals["namespace"] = _SilentNamespace
        self.filters = {**FILTERS, **_GUARD_FILTERS}

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """Join what a block, macro or template printed."""
        return joined("", pieces)

    def _parse(self, source: str, name: str | None, filename: str | None) -> Any:
        tree = super()._parse(source, name, filename)
        return _Guards().visit(tree).set_environment(self)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Values of plain objects, and the methods listed in this module."""
        if not super().is_safe_attribute(obj, attr, value):
            return False
        if not callable(value) or isinstance(obj, Namespace):
            return True
        kinds = (names for kind, names in _METHODS.items() if isinstance(obj, kind))
        return attr in next(kinds, ())

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Charge for a call and for what it gives."""
        context, function, *arguments = args
        if isinstance(function, Macro | LoopContext):
            spend_steps(_MACRO_STEPS)
        method = getattr(function, "__wrapped__", function)
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str):
            _check_text_method(owner, method.__name__, arguments, kwargs)
        result = super().call(context, function, *arguments, **kwargs)
        if isinstance(result, _UNSIZED):
            result = as_list(result)
        charge(result, deep=function is dict)
        return result

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse an operator whose result would be too large, else apply it."""
        _check_growth(operator, left, right)
        result = super().call_binop(context, operator, left, right)
        charge(result)
        return result


def _check_growth(operator: str, left: Any, right: Any) -> None:
    if operator == "%" and isinstance(left, str):
        check_format(left, right)
    elif operator == "+" and _has_length(left) and _has_length(right):
        check_size(len(left) + len(right))
    elif operator == "*":
        _check_product(left, right)
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * max(right, 0))


def _check_product(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    for sequence, count in ((left, right), (right, left)):
        if _has_length(sequence) and isinstance(count, int):
            check_size(len(sequence) * max(count, 0))


def _check_bits(count: int) -> None:
    if count > _MAX_POWER_BITS:
        raise SecurityError(f"the template computes a number of {count} bits")


def _has_length(value: Any) -> bool:
    return isinstance(value, str | list | tuple)


def _check_text_method(
    text: str, name: str, args: list[Any], kwargs: dict[str, Any]
) -> None:
    """Refuse a string method whose result or running time would be too large."""
    spend_steps(1 + len(text) // 1000)
    needle = args[0] if args else None
    if name == "replace":
        replaced(text, *args)
    elif name == "join" and args:
        joined(text, args[0])
    elif name in ("format", "format_map"):
        check_format(text, [args, kwargs])
    elif name in _SLOW_WITH_LONG_NEEDLES and len(str(needle)) > _MAX_NEEDLE:
        raise SecurityError(f"the template calls {name} with a long argument")


def _printable(value: Any) -> Any:
    charge(value, deep=True)
    return value


def _loop(value: Any, weight: int) -> Any:
    items = value if hasattr(value, "__len__") else list(value)
    spend_steps(len(items) * weight + 1)
    return items


def _tick(value: Any) -> Any:
    spend_steps(1)
    return value


def _nested(value: Any) -> Any:
    charge(value, deep=True)
    return value


def _copied(value: Any) -> Any:
    charge(value)
    return value


def _concat(values: list[Any]) -> str:
    return joined("", values)


_GUARD_FILTERS: dict[str, Callable[..., Any]] = {
    "_concat": _concat,
    "_copied": _copied,
    "_loop": _loop,
    "_nested": _nested,
    "_tick": _tick,
}
