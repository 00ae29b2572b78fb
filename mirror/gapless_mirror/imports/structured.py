"""The reader of JSON and YAML files of other programs, and how their values become those of properties.

Must not know any program. Errors name the place in the file and never contain a value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.settings.java_properties import Property


def documents_of(text: str, file: Path) -> list[Any]:
    """Read a text as JSON if it begins like JSON, else as YAML documents.

    Raises:
        ConfigurationError: the text is neither.
    """
    try:
        if text.lstrip()[:1] in {"{", "["}:
            return [json.loads(text)]
        return [each for each in yaml.safe_load_all(text) if each is not None]
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} in line {error.lineno:,}"
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1:,}" if error.problem_mark is not None else ""
        problem = f"is not YAML: {error.problem}{line}"
    except yaml.YAMLError:
        problem = "is not YAML: it has characters that YAML does not allow"
    except RecursionError:
        problem = "is nested too deeply"
    except ValueError as error:  # such as a date that does not exist, or a number of too many digits
        problem = f"has an invalid value: {error}"
    raise ConfigurationError(f"The file {file} {problem}; correct it.")


@dataclass(frozen=True, slots=True)
class Node:
    """A mapping in a file, and its place there."""

    file: Path
    path: str
    """Such as ``spec.mirrors[0]``; empty at the top."""
    content: Mapping[str, Any]
    read: set[str] = field(default_factory=set)
    """The fields that were asked for."""

    @classmethod
    def of(cls, file: Path, path: str, content: object) -> Node:
        """Raises ConfigurationError if `content` is no mapping."""
        if not isinstance(content, Mapping):
            raise ConfigurationError(f"{path or 'The content'} in {file} must be a mapping; correct it.")
        return cls(file, path, {str(key): value for key, value in content.items()})

    def place(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether a field has a value."""
        return self.content.get(name) is not None

    def text(self, name: str) -> str:
        """Return a scalar as properties have it; empty if it is absent. Raises ConfigurationError."""
        self.read.add(name)
        value = self.content.get(name)
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float | str):
            text = str(value).strip()
            if "\n" not in text and "\r" not in text and "\0" not in text:
                return text
        raise ConfigurationError(f"{self.place(name)} in {self.file} must be a text of one line; correct it.")

    def required(self, name: str) -> str:
        """Return a scalar. Raises ConfigurationError if it is absent or empty."""
        text = self.text(name)
        if not text:
            raise ConfigurationError(f"{self.place(name)} in {self.file} is missing; add it.")
        return text

    def node(self, name: str) -> Node:
        """Return a mapping, empty if it is absent. Raises ConfigurationError."""
        self.read.add(name)
        value = self.content.get(name)
        return Node.of(self.file, self.place(name), {} if value is None else value)

    def nodes(self, name: str) -> list[Node]:
        """Return a list of mappings, empty if it is absent. Raises ConfigurationError."""
        self.read.add(name)
        value = self.content.get(name)
        if value is None:
            return []
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise ConfigurationError(f"{self.place(name)} in {self.file} must be a list; correct it.")
        return [Node.of(self.file, f"{self.place(name)}[{index}]", each) for index, each in enumerate(value)]

    def property(self, name: str, key: str) -> Property:
        """Return a scalar as the property `key`. Raises ConfigurationError."""
        return Property(key, self.text(name), f"in {self.file}, {self.place(name)}")

    def others(self) -> list[str]:
        """Return the paths of the fields that have a value and were not asked for."""
        return [self.place(name) for name in self.content if name not in self.read and self.has(name)]
