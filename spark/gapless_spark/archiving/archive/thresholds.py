"""The segment thresholds of each topic: those of the settings, or of a file for individual topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_archive.segments.row_buffer import Limits
from gapless_spark.archiving.archive.planning import Thresholds
from gapless_spark.settings.archive import ARCHIVE, ArchiveSettings

_NAMES = ("maxSegmentRecords", "maxSegmentBytes", "maxSegmentAge")


class TopicThresholds:
    """The segment thresholds of all topics."""

    def __init__(self, settings: ArchiveSettings) -> None:
        """Read the file of topicThresholds, if there is one. Raises ConfigurationError when it is invalid."""
        default = (settings.max_segment_records, settings.max_segment_bytes, settings.max_segment_age_seconds)
        self._default = _thresholds(*default)
        entries = _read(settings.topic_thresholds) if settings.topic_thresholds is not None else {}
        self._by_entry = {
            entry: _thresholds(*(given.get(name, value) for name, value in zip(_NAMES, default, strict=True)))
            for entry, given in entries.items()
        }

    def of(self, topic: str) -> Thresholds:
        """Return the thresholds of a topic: by name, else by the longest prefix, else the default."""
        matching = [entry for entry in self._by_entry if entry.endswith("*") and topic.startswith(entry[:-1])]
        entry = topic if topic in self._by_entry else max(matching, key=len, default="")
        return self._by_entry.get(entry, self._default)


def _thresholds(records: int, size: int, age_seconds: float) -> Thresholds:
    return Thresholds(Limits(records, size), age_seconds)


def _read(file: Path) -> dict[str, dict[str, Any]]:
    import yaml  # noqa: PLC0415 -- rarely needed

    try:
        content = yaml.safe_load(read_small(file))
    except OSError as error:
        raise ConfigurationError(
            f"The file {file} of topicThresholds cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _invalid(file, f"it is not YAML: {' '.join(str(error).split())[:120]}") from None
    if not isinstance(content, dict):
        raise _invalid(file, "it must be a mapping of topics to thresholds")
    return {str(topic): _parse(file, str(topic), entry) for topic, entry in content.items()}


def _parse(file: Path, topic: str, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict) or not entry.keys() <= set(_NAMES):
        raise _invalid(file, f"{topic} may only have {', '.join(_NAMES)}")
    by_name = ARCHIVE.by_name()
    parsed = {}
    for name, value in entry.items():
        try:
            parsed[name] = by_name[name].parse(str(value))
        except ValueError as error:
            raise _invalid(file, f"{name} of {topic} is {value!r} and must be {error}") from None
    return parsed


def _invalid(file: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(f"The file {file} of topicThresholds is invalid ({problem}); correct it.")
