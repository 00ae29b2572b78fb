"""Which statements a mirror applies: an allow-list over the plan that Spark's parser returns, before its analysis.

Analysis looks up tables and functions, which reads files and calls Java; it therefore sees accepted statements only.
A class of the plan that is not listed is refused. Messages name the rule and the position, never Spark's text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_mirror.sql.messages import COLUMNS, SELECTABLE
from gapless_spark.mirror.transform_sizes import Place, SizeRules, refused, sequence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gapless_api.base.errors import ConfigurationError

MAX_LENGTH, _MAX_DEPTH, _MAX_NODES = 16_384, 32, 1_000
_SELECT = re.compile(r"\s*select\b", re.IGNORECASE)
_WHERE = re.compile(r"\s*where\b", re.IGNORECASE)
_CASE, _MAX_CASES = re.compile(r"\bcase\b", re.IGNORECASE), 32
"""Spark's parser needs seconds for many that are inside each other."""
_PREFIX = "SELECT value FROM records\n"
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_ANALYSIS = "org.apache.spark.sql.catalyst.analysis."


@dataclass(frozen=True, slots=True)
class Statement:
    """What an accepted statement consists of: unresolved expressions of Spark's parser, in the JVM."""

    alias: str
    """The name of the table in column names."""
    selected: tuple[tuple[str, Any], ...]
    """The columns and their expressions; empty if the statement is WHERE alone."""
    condition: Any | None


def parse_statement(spark: SparkSession, statement: str) -> Statement:
    """Parse ``SELECT … FROM records [WHERE …]``, or ``WHERE …`` alone, without looking anything up.

    Raises:
        ConfigurationError: the statement is not accepted.
    """
    _check_text(statement)
    if len(_CASE.findall(statement)) > _MAX_CASES:
        raise refused(f"it has more than {_MAX_CASES} times CASE")
    is_filter = _WHERE.match(statement) is not None
    if not is_filter and _SELECT.match(statement) is None:
        raise refused("it begins neither with SELECT nor with WHERE")
    top = Place(1, 1)
    _refuse_identifier_clause(spark, statement)
    project = _parse(spark, _PREFIX + statement if is_filter else statement, first_line=2 if is_filter else 1)
    if _class(project) != _LOGICAL + "Project":
        raise _shape(top)
    child, condition = project.child(), None
    if _class(child) == _LOGICAL + "Filter":
        condition, child = child.condition(), child.child()
    alias = _table(child, top)
    if is_filter and (condition is None or alias != "records"):
        raise refused("it has no condition after WHERE", top)
    rules = SizeRules(alias, COLUMNS, _MAX_DEPTH, _MAX_NODES, first_line=2 if is_filter else 1)
    selected = () if is_filter else _selected(rules, project.projectList(), top)
    if condition is not None:
        rules.size(condition, top)
    return Statement(alias, selected, condition)


def _table(node: Any, top: Place) -> str:
    """Return the name of the table in column names. Raises ConfigurationError."""
    alias = "records"
    if _class(node) == _LOGICAL + "SubqueryAlias":
        alias, node = str(node.identifier().name()).lower(), node.child()
    if _class(node) != _ANALYSIS + "UnresolvedRelation":
        raise _shape(top)
    names = [str(each) for each in sequence(node.multipartIdentifier())]
    if [name.lower() for name in names] != ["records"]:
        raise refused("it reads a table other than records", top)
    if node.isStreaming() or not node.options().isEmpty():
        raise refused("it gives options for the table records", top)
    if alias in COLUMNS:
        raise refused(f"it names the table {alias}, like a column", top)
    return alias


def _check_text(statement: str) -> None:
    if len(statement) > MAX_LENGTH:
        raise refused(f"it is longer than {MAX_LENGTH:,} characters")
    depth, line, column = 0, 1, 0
    for number, letter in enumerate(statement):
        line, column = (line + 1, 0) if letter == "\n" else (line, column + 1)
        depth = max(depth + (letter in "([") - (letter in ")]"), 0)
        if depth > _MAX_DEPTH:
            raise refused(f"it has more than {_MAX_DEPTH} brackets inside each other", Place(line, column))
        if statement.startswith("${", number):
            raise refused("it has a variable (${…})", Place(line, column))
        if (ord(letter) < ord(" ") and letter not in "\t\r\n") or "\ud800" <= letter <= "\udfff":
            raise refused("it has a control character", Place(line, column))


def _refuse_identifier_clause(spark: SparkSession, statement: str) -> None:
    """Refuse ``IDENTIFIER('…')``, which Spark's parser replaces by the name, so that the plan does not show it."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- its lexer knows what is a text between quotes, or a comment
    syntax = jvm.org.apache.spark.sql.catalyst.parser
    lexer = syntax.SqlBaseLexer(syntax.UpperCaseCharStream(jvm.org.antlr.v4.runtime.CharStreams.fromString(statement)))
    lexer.removeErrorListeners()  # the parser names errors
    for token in lexer.getAllTokens():
        if token.getType() == syntax.SqlBaseLexer.IDENTIFIER_KW:
            raise refused("it has an IDENTIFIER clause", Place(token.getLine(), token.getCharPositionInLine() + 1))


def _parse(spark: SparkSession, text: str, *, first_line: int) -> Any:
    from py4j.protocol import Py4JError  # noqa: PLC0415 -- slow to import
    from pyspark.errors import PySparkException  # noqa: PLC0415

    session: Any = spark._jsparkSession  # noqa: SLF001 -- PySpark has no parser that analyses nothing
    try:
        return session.sessionState().sqlParser().parsePlan(text)
    except PySparkException as error:
        raise refused("it is not valid SQL", _place_of(error, first_line)) from None
    except Py4JError:
        raise refused("it is nested too deeply, or is not valid SQL") from None


def _place_of(error: Any, first_line: int) -> Place | None:
    """Return where the parser stopped; ``None`` if it does not say."""
    found = re.search(r"\(line ([0-9]+), pos ([0-9]+)\)", str(error))
    if found is None:
        return None
    return Place(max(int(found[1]) - first_line + 1, 1), int(found[2]) + 1)


def _selected(rules: SizeRules, projections: Any, top: Place) -> tuple[tuple[str, Any], ...]:
    selected: dict[str, Any] = {}
    for expression in sequence(projections):
        place = rules.place(expression, top)
        name, value = _named(expression)
        if name is None:
            raise refused("a selected expression has no name; write … AS value", rules.place(value, place))
        if name not in SELECTABLE:
            raise refused(
                f"it selects {name[:50] if name.isidentifier() else 'another column'}; select key, value, headers and "
                f"topic, each under its name (… AS value)",
                place,
            )
        if name in selected:
            raise refused(f"it selects {name} twice", place)
        rules.size(value, place)
        selected[name] = value
    return tuple(selected.items())


def _named(expression: Any) -> tuple[str | None, Any]:
    """Return the name of a selected column in lower case, ``None`` if it has none, and the expression."""
    match _class(expression):
        case "org.apache.spark.sql.catalyst.expressions.Alias":
            return str(expression.name()).lower(), expression.child()
        case "org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute":
            return str(expression.nameParts().last()).lower(), expression
        case "org.apache.spark.sql.catalyst.analysis.UnresolvedAlias":
            return None, expression.child()
    return "*", expression


def _class(node: Any) -> str:
    return str(node.getClass().getName())


def _shape(place: Place) -> ConfigurationError:
    return refused("it does not process each record of the table records on its own", place)
