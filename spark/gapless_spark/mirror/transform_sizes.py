"""Which expressions the SQL of a mirror may have, and how large their results can become.

Walks the unresolved expressions of Spark's parser, in the JVM, by the names of their classes; others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_spark.mirror.transform_functions import FUNCTIONS, MAX_PADDING, Growth
from gapless_spark.mirror.transform_patterns import check_like, pattern_width

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_ANALYSIS = "org.apache.spark.sql.catalyst.analysis."
_OPERATORS = """
EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual Not And Or IsNull IsNotNull In
Add Subtract Multiply Divide Remainder IntegralDivide UnaryMinus UnaryPositive BitwiseAnd BitwiseOr BitwiseXor
"""
_SMALL = frozenset(_EXPRESSIONS + name for name in _OPERATORS.split())
"""Operators that return a number or a truth value."""
_SQL_FORMS = {
    "Concat": "concat",
    "Substring": "substring",
    "StringTrim": "btrim",
    "StringLocate": "locate",
    "RLike": "rlike",
}
"""Functions that the parser itself creates for a syntax of SQL."""
_TYPES = re.compile(r"string|binary|boolean|tinyint|smallint|int|bigint|float|double|date|timestamp")
_LITERAL_TYPES = re.compile(rf"{_TYPES.pattern}|void|decimal\([0-9,]+\)")
_HEADERS = "array<struct<key:string,value:binary>>"
_SMALL_COLUMNS = frozenset({"topic", "partition", "offset", "timestamp"})
_MAX_FACTOR, _MAX_CONSTANT = 64.0, 65_536.0
_FORM = "Write SELECT … FROM records [WHERE …], or WHERE … alone."


class Place(NamedTuple):
    """A position in the statement, counted from 1."""

    line: int
    column: int


class Size(NamedTuple):
    """The largest result of an expression: a multiple of the record's size, and a number of characters beside it."""

    factor: float
    constant: float


_NUMBER = Size(0, 64)


def refused(reason: str, place: Place | None = None) -> ConfigurationError:
    """Return the error of a statement that is not accepted."""
    where = f" at line {place.line}, column {place.column}" if place is not None else ""
    return ConfigurationError(f"The transform cannot be applied: {reason}{where}. {_FORM}")


def sequence(scala: Any) -> Iterator[Any]:
    """Iterate over a Scala sequence in the JVM."""
    for number in range(scala.size()):
        yield scala.apply(number)


class SizeRules:
    """The rules for the expressions of one statement."""

    def __init__(self, alias: str, columns: Sequence[str], max_depth: int, max_nodes: int, *, first_line: int) -> None:
        """Set the bounds.

        Args:
            alias: the name of the table in column names.
            columns: of the table.
            max_depth: of an expression.
            max_nodes: of all expressions together.
            first_line: the line of the parsed text in which the statement begins.
        """
        self._alias, self._columns = alias, frozenset(columns)
        self._max_depth, self._nodes_left = max_depth, max_nodes
        self._first_line = first_line
        self._depth = 0
        self._lambda_variable: str | None = None
        """The variable of the lambda that is being read."""
        self._readers: dict[str, Callable[[Any, Place], Size]] = {
            f"{_EXPRESSIONS}Literal": self._literal,
            f"{_EXPRESSIONS}UnresolvedNamedLambdaVariable": self._variable,
            f"{_EXPRESSIONS}Cast": self._cast,
            f"{_EXPRESSIONS}Like": self._like,
            f"{_EXPRESSIONS}ILike": self._like,
            f"{_EXPRESSIONS}CaseWhen": lambda node, place: _largest(self._sizes(node.children(), place)),
            f"{_ANALYSIS}UnresolvedAttribute": self._column,
            f"{_ANALYSIS}UnresolvedFunction": self._call,
            f"{_ANALYSIS}UnresolvedExtractValue": lambda node, place: self._sizes(node.children(), place)[0],
        }

    def place(self, node: Any, otherwise: Place) -> Place:
        """Return the position of an expression; that of the expression around it, if the parser gives none."""
        origin = node.origin()
        line, column = origin.line(), origin.startPosition()
        if line.isEmpty() or column.isEmpty():
            return otherwise
        return Place(max(int(line.get()) - self._first_line + 1, 1), int(column.get()) + 1)

    def size(self, node: Any, around: Place) -> Size:
        """Check an expression, and return the largest size of its result. Raises ConfigurationError."""
        place = self.place(node, around)
        self._nodes_left -= 1
        self._depth += 1
        if self._depth > self._max_depth:
            raise refused(f"it has more than {self._max_depth} expressions inside each other", place)
        if self._nodes_left < 0:
            raise refused("it has too many expressions", place)
        size = self._size(node, place)
        self._depth -= 1
        if size.factor > _MAX_FACTOR or size.constant > _MAX_CONSTANT:
            raise refused("a result can become much larger than the record", place)
        return size

    def _size(self, node: Any, place: Place) -> Size:
        name = str(node.getClass().getName())
        read = self._readers.get(name)
        if read is not None:
            return read(node, place)
        if name in _SMALL:
            self._sizes(node.children(), place)
            return _NUMBER
        form = _SQL_FORMS.get(name.removeprefix(_EXPRESSIONS))
        if form is not None:
            return self._arguments(form, list(sequence(node.children())), place)
        raise refused("it has an expression that is not in the list of those that are allowed", place)

    def _sizes(self, nodes: Any, place: Place) -> list[Size]:
        return [self.size(each, place) for each in sequence(nodes)]

    @staticmethod
    def _literal(node: Any, place: Place) -> Size:
        kind = str(node.dataType().simpleString())
        if _LITERAL_TYPES.fullmatch(kind) is None:
            raise refused("it has a literal of a type that is not allowed", place)
        return Size(0, len(_text(node)))

    def _column(self, node: Any, place: Place) -> Size:
        parts = [str(each).lower() for each in sequence(node.nameParts())]
        if len(parts) > 1 and parts[0] == self._alias:
            parts = parts[1:]
        if parts[0] not in self._columns or (len(parts) > 1 and parts[0] != "headers"):
            raise refused(f"it reads a column other than {', '.join(sorted(self._columns))}", place)
        return Size(0, 256) if parts[0] in _SMALL_COLUMNS else Size(1, 0)

    def _variable(self, node: Any, place: Place) -> Size:
        parts = [str(each).lower() for each in sequence(node.nameParts())]
        if self._lambda_variable is not None and parts[0] == self._lambda_variable:
            return Size(1, 0)
        if len(parts) > 1 and parts[0] == self._alias:
            parts = parts[1:]
        if len(parts) == 1 and parts[0] in _SMALL_COLUMNS:
            return Size(0, 256)
        raise refused("a lambda reads a column that can be large; it may read its variable and topic", place)

    def _cast(self, node: Any, place: Place) -> Size:
        kind = str(node.dataType().simpleString())
        size = self.size(node.child(), place)
        if _TYPES.fullmatch(kind) is None and kind != _HEADERS:
            raise refused("it casts to a type that is not allowed", place)
        return size if kind in {"string", "binary", _HEADERS} else _NUMBER

    def _like(self, node: Any, place: Place) -> Size:
        self.size(node.left(), place)
        self.size(node.right(), place)
        if not _is_constant(node.right()):
            raise refused("the pattern of LIKE is not a text between quotes", place)
        try:
            check_like(_text(node.right()))
        except ValueError as error:
            raise refused(f"the pattern of LIKE {error}", place) from None
        return _NUMBER

    def _call(self, node: Any, place: Place) -> Size:
        parts = [str(each).lower() for each in sequence(node.nameParts())]
        if len(parts) != 1 or parts[0] not in FUNCTIONS:
            raise refused("it calls a function that is not in docs/reference/transform-functions.md", place)
        plain = (
            not node.isDistinct()
            and node.ignoreNulls().isEmpty()
            and node.filter().isEmpty()
            and node.orderingWithinGroup().isEmpty()
        )
        if not plain:
            raise refused("it calls a function with DISTINCT, FILTER, IGNORE NULLS or WITHIN GROUP", place)
        return self._arguments(parts[0], list(sequence(node.arguments())), place)

    def _arguments(self, name: str, arguments: list[Any], place: Place) -> Size:
        function = FUNCTIONS[name]
        if not function.min_arguments <= len(arguments) <= function.max_arguments:
            raise refused(f"it calls {name} with another number of arguments than is allowed", place)
        for number in function.constants:
            if number < len(arguments) and not _is_constant(arguments[number]):
                where = self.place(arguments[number], place)
                raise refused(f"argument {number + 1} of {name} is not a text between quotes or a number", where)
        sizes = [self.size(arguments[0], place)] if arguments else []
        if function.takes_lambda:
            sizes.append(self._lambda(name, arguments[1], place))
        else:
            sizes += [self.size(each, place) for each in arguments[1:]]
        width = None
        if function.regex is not None:
            try:
                width = pattern_width(_text(arguments[function.regex]))
            except ValueError as error:
                where = self.place(arguments[function.regex], place)
                raise refused(f"the regular expression {error}", where) from None
        literals = [_text(each) if _is_literal(each) else "" for each in arguments]
        return _grown(function.growth, sizes, literals, width, place)

    def _lambda(self, name: str, node: Any, around: Place) -> Size:
        place = self.place(node, around)
        if str(node.getClass().getName()) != f"{_EXPRESSIONS}LambdaFunction":
            raise refused(f"the second argument of {name} is not a lambda such as h -> h.key = 'a'", place)
        if self._lambda_variable is not None or node.arguments().size() != 1:
            raise refused("a lambda is inside another lambda, or has several variables", place)
        self._lambda_variable = str(node.arguments().apply(0).nameParts().mkString(".")).lower()
        try:
            return self.size(node.function(), place)
        finally:
            self._lambda_variable = None


def _grown(  # noqa: C901, PLR0911 -- one case for each kind
    growth: Growth, sizes: list[Size], literals: list[str], width: int | None, place: Place
) -> Size:
    """Return the size of a function's result from those of its arguments."""
    match growth:
        case Growth.SMALL:
            return _NUMBER
        case Growth.LARGEST:
            return _largest(sizes)
        case Growth.SUM:
            return Size(sum(each.factor for each in sizes), sum(each.constant for each in sizes))
        case Growth.JOINED:
            separator = len(literals[0])
            joined = sum(each.constant + separator for each in sizes[1:])
            return Size(sum(each.factor for each in sizes[1:]) * (1 + separator), joined)
        case Growth.FIRST:
            return sizes[0]
        case Growth.DOUBLE:
            return _times(sizes[0], 2)
        case Growth.PADDED:
            if not literals[1].isdecimal() or int(literals[1]) > MAX_PADDING:
                raise refused(f"it pads to a length that is not a number up to {MAX_PADDING:,}", place)
            return Size(0, int(literals[1]))
        case Growth.REPLACED:
            _, search, *replacements = literals
            shortest = max(len(search) if width is None else width, 1)
            replacement = "".join(replacements)
            return _times(sizes[0], 1 + replacement.count("$") + len(replacement) / shortest)
        case Growth.MAPPED:
            body = sizes[1]
            return Size(sizes[0].factor * (1 + body.factor + body.constant / 8), sizes[0].constant)


def _largest(sizes: Sequence[Size]) -> Size:
    return Size(max(each.factor for each in sizes), max(each.constant for each in sizes))


def _times(size: Size, by: float) -> Size:
    return Size(size.factor * by, size.constant * by)


def _is_literal(node: Any) -> bool:
    return str(node.getClass().getName()) == f"{_EXPRESSIONS}Literal"


def _is_constant(node: Any) -> bool:
    """Whether it is a literal whose text is what a function sees; bytes are decoded later."""
    return _is_literal(node) and str(node.dataType().simpleString()) in {"string", "int", "bigint"}


def _text(node: Any) -> str:
    """Return the value of a literal as text."""
    return str(node.toString())
