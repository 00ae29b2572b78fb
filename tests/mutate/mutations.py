"""The mutations of a module's source; must not know tests, or whether a mutation is detected.

A mutation replaces one node of the syntax tree: a number incremented, a condition negated, a statement removed.
Annotations, docstrings and error messages are not mutated.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

MODULE = "<module>"
"""The function name for code outside of functions, which is evaluated when the module is imported."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
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
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
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
_CALLS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
}
_UNCHANGED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "type_params", "ctx"})
_MAX_TEXT = 100


class Owner(NamedTuple):
    """The outermost function around a mutation, as named by its code object."""

    qualified_name: str
    first_line: int


@dataclass(frozen=True)
class Mutation:
    """One change of a tree, which `apply` makes."""

    function: str
    line: int
    statement: tuple[int, int]
    """First and last line of the statement, or of its head if it has a body."""
    owner: Owner | None
    """None if the code is evaluated when the module is imported."""
    change: str
    """Old and new text; the second of two equal changes in a function ends with #2."""
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
class _Scope:
    names: tuple[str, ...] = ()
    owner: Owner | None = None
    statement: tuple[int, int] = (1, 1)
    in_function: bool = False


def mutations(tree: ast.Module) -> list[Mutation]:
    """Return all mutations of a module, in the order of its lines."""
    seen: Counter[tuple[str, str]] = Counter()
    numbered = []
    for mutation in _mutate_children(tree, _Scope()):
        seen[mutation.function, mutation.change] += 1
        number = seen[mutation.function, mutation.change]
        change = mutation.change if number == 1 else f"{mutation.change} #{number}"
        numbered.append(replace(mutation, change=change))
    return numbered


def _mutate_children(node: ast.AST, scope: _Scope) -> Iterator[Mutation]:
    for field, value in ast.iter_fields(node):
        if field in _UNCHANGED_FIELDS:
            continue
        children = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if isinstance(child, ast.AST):
                yield from _mutate_node(child, (node, field, index), scope)


def _mutate_node(node: ast.AST, where: tuple[ast.AST, str, int | None], scope: _Scope) -> Iterator[Mutation]:
    if _is_excluded(node):
        return
    if isinstance(node, ast.stmt):
        scope = replace(scope, statement=_span(node))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _mutate_children(node.args, scope)  # defaults are evaluated in the enclosing scope
        inner = _function_scope(node, scope)
        for number, child in enumerate(node.body):
            yield from _mutate_node(child, (node, "body", number), inner)
        return
    if isinstance(node, ast.ClassDef):
        scope = replace(scope, names=(*scope.names, node.name))
    for new, change in _changes(node, where[0]):
        yield Mutation(
            function=".".join(name for name in scope.names if name != "<locals>") or MODULE,
            line=getattr(node, "lineno", scope.statement[0]),
            statement=scope.statement,
            owner=scope.owner,
            change=change,
            parent=where[0],
            field=where[1],
            index=where[2],
            new=ast.fix_missing_locations(ast.copy_location(new, node)),
        )
    if not isinstance(node, ast.Raise):
        yield from _mutate_children(node, scope)


def _is_excluded(node: ast.AST) -> bool:
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


def _function_scope(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: _Scope) -> _Scope:
    names = (*scope.names, *(["<locals>"] if scope.in_function else []), node.name)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    owner = scope.owner or Owner(".".join(names), first)
    return replace(scope, names=names, owner=owner, in_function=True)


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
        case ast.AugAssign(op=op) if type(op) in _ARITHMETIC:
            new = _copy_with(node, op=_ARITHMETIC[type(op)]())
            yield new, f"{_text(node)} → {_text(new)}"
        case _:
            pass
    if _is_removable(node):
        yield ast.Pass(), f"{_text(node)} → pass"


def _is_removable(node: ast.stmt) -> bool:
    match node:
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise():
            return True
        case ast.Assign(targets=targets):
            return any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
    return False


def _expression_changes(node: ast.expr, parent: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Constant(value=value):
            yield from _constant_changes(value, parent)
        case ast.Compare() | ast.BinOp() | ast.BoolOp() | ast.UnaryOp():
            yield from _operator_changes(node)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield _copy_with(node, func=ast.Name(_CALLS[name], ast.Load()))
        case ast.Slice(lower=lower, upper=upper):
            if lower is not None:
                yield _copy_with(node, lower=None)
            if upper is not None:
                yield _copy_with(node, upper=None)
        case _:
            pass
    if _is_condition(node, parent) and not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
        yield ast.UnaryOp(ast.Not(), node)


def _operator_changes(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=ops):
            for number, op in enumerate(ops):
                yield _copy_with(node, ops=[*ops[:number], _COMPARISONS[type(op)](), *ops[number + 1 :]])
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            yield _copy_with(node, op=_ARITHMETIC[type(op)]())
        case ast.BoolOp(op=op):
            yield _copy_with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand


def _is_condition(node: ast.expr, parent: ast.AST) -> bool:
    match parent:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return test is node
        case ast.comprehension(ifs=tests):
            return node in tests
        case ast.BoolOp():
            return True
    return False


def _constant_changes(value: object, parent: ast.AST) -> Iterator[ast.expr]:
    match value:
        case bool():
            yield ast.Constant(not value)
        case int() | float():
            yield ast.Constant(value + 1)
        case str() if not isinstance(parent, ast.JoinedStr):
            yield ast.Constant(f"XX{value}")
        case bytes():
            yield ast.Constant(b"XX" + value)


def _copy_with(node: Any, **fields: object) -> Any:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _text(node: ast.AST) -> str:
    try:
        text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
    except AttributeError:  # a node without a text, such as a slice in older Pythons
        text = type(node).__name__
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
