"""Owns which thresholds a topic has: those of the settings, or those that a file gives for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_archive.segments.level_zero import Limits
from gapless_spark.archiving.archive.planning import Thresholds
from gapless_spark.settings.archive import ARCHIVE

if TYPE_CHECKING:
    from pathlib import Path

    from gapless_spark.settings.typed import ArchiveSettings

_NAMES = ("maxSegmentRecords", "maxSegmentBytes", "maxSegmentAge")


class TopicThresholds:
    """The thresholds of every topic."""

    def __init__(self, settings: ArchiveSettings) -> None:
        """Take a command's settings. Raises ConfigurationError when the file for topics cannot be used."""
        default = (settings.max_segment_records, settings.max_segment_bytes, settings.max_segment_age_seconds)
        self._default = _thresholds(*default)
        entries = _read(settings.topic_thresholds) if settings.topic_thresholds is not None else {}
        self._by_entry = {
            entry: _thresholds(*(given.get(name, value) for name, value in zip(_NAMES, default, strict=True)))
            for entry, given in entries.items()
        }

    def of(self, topic: str) -> Thresholds:
        """The thresholds of a topic: by its name, by the longest prefix, or those of all."""
        fitting = [entry for entry in self._by_entry if entry.endswith("*") and topic.startswith(entry[:-1])]
        entry = topic if topic in self._by_entry else max(fitting, key=len, default="")
        return self._by_entry.get(entry, self._default)


def _thresholds(records: int, size: int, age_seconds: float) -> Thresholds:
    return Thresholds(Limits(records, size), age_seconds)


def _read(file: Path) -> dict[str, dict[str, Any]]:
    import yaml  # noqa: PLC0415 -- rarely needed

    try:
        found = yaml.safe_load(read_small(file))
    except OSError as error:
        raise ConfigurationError(
            f"The file {file} of topicThresholds cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _bad(file, f"it is not YAML: {' '.join(str(error).split())[:120]}") from None
    if not isinstance(found, dict):
        raise _bad(file, "it must hold topics, and thresholds below each")
    return {str(topic): _given(file, str(topic), below) for topic, below in found.items()}


def _given(file: Path, topic: str, below: Any) -> dict[str, Any]:
    if not isinstance(below, dict) or not below.keys() <= set(_NAMES):
        raise _bad(file, f"{topic} must have {', '.join(_NAMES)} and nothing else")
    by_name = ARCHIVE.by_name()
    parsed = {}
    for name, value in below.items():
        try:
            parsed[name] = by_name[name].parse(str(value))
        except ValueError as error:
            raise _bad(file, f"{name} of {topic} is {value!r} and must be {error}") from None
    return parsed


def _bad(file: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(f"The file {file} of topicThresholds is invalid ({problem}); correct it.")
