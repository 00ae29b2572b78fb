"""Owns which changes are tried on a module's source; must not know tests, or whether a change is noticed.

A change is one node of the syntax tree that gives way to another: a bound moved by one, a condition turned round, a
statement left out. Annotations, docstrings and the texts of errors are not changed.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = "<module>"
"""The function's name of what stands outside of functions, and is evaluated when the module is imported."""

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLED = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
}
_UNCHANGED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "type_params", "ctx"})
_MOST_TEXT = 100


class Owner(NamedTuple):
    """The outermost function around a change, as its code object is named."""

    qualified_name: str
    first_line: int


@dataclass(frozen=True)
class Mutation:
    """One change of a tree; `apply` carries it out on that tree."""

    function: str
    line: int
    statement: tuple[int, int]
    """First and last line of the statement, or of its head when it has a body."""
    owner: Owner | None
    """None when the change is evaluated while the module is imported."""
    change: str
    """What stands there and what takes its place; the second of two equal ones in a function ends with #2."""
    parent: ast.AST
    field: str
    index: int | None
    new: ast.AST

    def apply(self) -> None:
        """Change the tree."""
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.index] = self.new


@dataclass(frozen=True)
class _Place:
    names: tuple[str, ...] = ()
    owner: Owner | None = None
    statement: tuple[int, int] = (1, 1)
    in_function: bool = False


def mutations(tree: ast.Module) -> list[Mutation]:
    """All changes of a module, in the order of its lines."""
    found = list(_of_children(tree, _Place()))
    seen: Counter[tuple[str, str]] = Counter()
    numbered = []
    for mutation in found:
        seen[mutation.function, mutation.change] += 1
        number = seen[mutation.function, mutation.change]
        change = mutation.change if number == 1 else f"{mutation.change} #{number}"
        numbered.append(replace(mutation, change=change))
    return numbered


def _of_children(node: ast.AST, place: _Place) -> Iterator[Mutation]:
    for field, value in ast.iter_fields(node):
        if field in _UNCHANGED_FIELDS:
            continue
        children = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if isinstance(child, ast.AST):
                yield from _of_node(child, (node, field, index), place)


def _of_node(node: ast.AST, where: tuple[ast.AST, str, int | None], place: _Place) -> Iterator[Mutation]:
    if _is_left_alone(node):
        return
    if isinstance(node, ast.stmt):
        place = replace(place, statement=_span(node))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _of_children(node.args, place)  # Defaults are evaluated where the function stands.
        inner = _inside(node, place)
        for number, child in enumerate(node.body):
            yield from _of_node(child, (node, "body", number), inner)
        return
    if isinstance(node, ast.ClassDef):
        place = replace(place, names=(*place.names, node.name))
    for new, change in _changes(node, where[0]):
        yield Mutation(
            function=".".join(name for name in place.names if name != "<locals>") or MODULE,
            line=getattr(node, "lineno", place.statement[0]),
            statement=place.statement,
            owner=place.owner,
            change=change,
            parent=where[0],
            field=where[1],
            index=where[2],
            new=ast.fix_missing_locations(ast.copy_location(new, node)),
        )
    if not isinstance(node, ast.Raise):
        yield from _of_children(node, place)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__" | "__all__")]):
            return True
    return False


def _span(node: ast.stmt) -> tuple[int, int]:
    body = getattr(node, "body", None)
    last = node.end_lineno or node.lineno
    return node.lineno, max(node.lineno, body[0].lineno - 1) if isinstance(body, list) else last


def _inside(node: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place) -> _Place:
    names = (*place.names, *(["<locals>"] if place.in_function else []), node.name)
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    owner = place.owner or Owner(".".join(names), first)
    return replace(place, names=names, owner=owner, in_function=True)


def _changes(node: ast.AST, parent: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.stmt):
        yield from _statement_changes(node)
    elif isinstance(node, ast.expr):
        for new in _expression_changes(node, parent):
            yield new, f"{_text(node)} → {_text(new)}"


def _statement_changes(node: ast.stmt) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.Break():
            yield ast.Continue(), "break → continue"
        case ast.Continue():
            yield ast.Break(), "continue → break"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(value=ast.Constant(None)), f"{_text(node)} → return None"
        case ast.AugAssign(op=op) if type(op) in _CALCULATED:
            new = _changed(node, op=_CALCULATED[type(op)]())
            yield new, f"{_text(node)} → {_text(new)}"
        case _:
            pass
    if _can_go(node):
        yield ast.Pass(), f"{_text(node)} → pass"


def _can_go(node: ast.stmt) -> bool:
    match node:
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise():
            return True
        case ast.Assign(targets=targets):
            return any(isinstance(one, ast.Attribute | ast.Subscript) for one in targets)
    return False


def _expression_changes(node: ast.expr, parent: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Constant(value=value):
            yield from _other_constants(value, parent)
        case ast.Compare() | ast.BinOp() | ast.BoolOp() | ast.UnaryOp():
            yield from _other_operators(node)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
            yield _changed(node, func=ast.Name(_CALLED[name], ast.Load()))
        case ast.Slice(lower=lower, upper=upper):
            if lower is not None:
                yield _changed(node, lower=None)
            if upper is not None:
                yield _changed(node, upper=None)
        case _:
            pass
    if _decides(node, parent) and not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
        yield ast.UnaryOp(ast.Not(), node)


def _other_operators(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=ops):
            for number, op in enumerate(ops):
                yield _changed(node, ops=[*ops[:number], _COMPARED[type(op)](), *ops[number + 1 :]])
        case ast.BinOp(op=op) if type(op) in _CALCULATED:
            yield _changed(node, op=_CALCULATED[type(op)]())
        case ast.BoolOp(op=op):
            yield _changed(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand


def _decides(node: ast.expr, parent: ast.AST) -> bool:
    match parent:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return test is node
        case ast.comprehension(ifs=tests):
            return node in tests
        case ast.BoolOp():
            return True
    return False


def _other_constants(value: object, parent: ast.AST) -> Iterator[ast.expr]:
    match value:
        case bool():
            yield ast.Constant(not value)
        case int() | float():
            yield ast.Constant(value + 1)
        case str() if not isinstance(parent, ast.JoinedStr):
            yield ast.Constant(f"XX{value}")
        case bytes():
            yield ast.Constant(b"XX" + value)


def _changed(node: Any, **fields: object) -> Any:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _text(node: ast.AST) -> str:
    try:
        text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
    except AttributeError:  # What has no text of its own, as a slice in older Pythons.
        text = type(node).__name__
    text = " ".join(text.split())
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
