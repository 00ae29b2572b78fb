"""``gapless mirror import``: it prints the settings and the manifests, with comments for what is not in them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.quantities import quantity
from gapless_mirror.imports.manifests import Manifests, manifests_of
from gapless_mirror.imports.translated import ImportedMirror, import_mirror


def run(file: Path, values: dict[str, Any]) -> int:
    """Print, and return the exit code. Raises ConfigurationError."""
    names = ("sourceBootstrapServers", "targetBootstrapServers")
    servers = {name: values[name] for name in names if values[name]}
    imported = import_mirror(file, values["flow"], servers, values["filesFolder"])
    manifests = manifests_of(imported, values["namespace"])
    texts, left_out = [], set(imported.not_carried)
    if values["print"] != "manifests":
        texts.append(properties_text(imported))
    if values["print"] != "properties":
        texts.append(manifests_text(imported, manifests))
        left_out |= {*manifests.not_carried, *manifests.refusals}
    sys.stdout.write("\n".join(texts))
    found = f"The file is {imported.program}; {quantity(len(imported.texts), 'setting')} printed"
    if left_out:
        sys.stderr.write(f"{found}, and {len(left_out):,} not carried over: see the comments.\n")
        return ExitCode.INCOMPLETE
    sys.stderr.write(f"{found}; everything that has an effect is carried over.\n")
    return ExitCode.DONE


def properties_text(imported: ImportedMirror) -> str:
    """Return the settings file."""
    lines = [f"Settings of the mirror {imported.flow} from {imported.program}.", "Run: gapless mirror THIS-FILE"]
    lines += [
        f"Write the entry {entry.key} of the Secret {entry.name} to {path}."
        for path, entry in imported.secrets.items()
        if path in imported.texts.values()
    ]
    lines += _to_write(imported)
    lines += _left_out(imported.not_carried)
    lines += [f"No need of {name}: {reason}." for name, reason in imported.without_meaning.items()]
    return _comments(lines) + "".join(f"{name}={text}\n" for name, text in imported.texts.items())


def manifests_text(imported: ImportedMirror, manifests: Manifests) -> str:
    """Return the manifests as YAML."""
    lines = [
        f"The mirror {imported.flow} from {imported.program}.",
        "The platform team limits allowedTopics and allowedGroups of the KafkaConnections to what is needed.",
        *_to_write(imported),
        *(f"Before kubectl apply: {command}" for command in manifests.secrets),
        *_left_out((*imported.not_carried, *manifests.not_carried)),
        *(f"To correct: {sentence}" for sentence in manifests.refusals),
    ]
    text = yaml.safe_dump_all(manifests.objects, sort_keys=False, allow_unicode=True, width=1000)
    return _comments(lines) + text


def _to_write(imported: ImportedMirror) -> list[str]:
    return [f"Write {content} to {path}." for path, content in imported.to_write.items()]


def _left_out(sentences: Iterable[str]) -> list[str]:
    return [f"Not carried over: {sentence}" for sentence in sentences]


def _comments(lines: Iterable[str]) -> str:
    """Return comments of one line each: what the file of a stranger names must not become a setting or a field."""
    return "".join(f"# {''.join(letter if letter.isprintable() else '?' for letter in line)}\n" for line in lines)
