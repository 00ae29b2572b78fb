"""Manifests match their golden files; GAPLESS_UPDATE_GOLDEN=1 writes these again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gapless_api.base.properties_file import read_properties
from gapless_api.base.settings import resolve
from gapless_spark.settings.tables import AUDIT, SCAN

GOLDEN = Path(__file__).parent / "golden"
Make = Callable[..., Any]

SECURE = {"kafkaRef": {"name": "secure"}}
EVENTS = {"source": {"events": {"topics": ["transfer", "alarm"], "expect": ["transfer:0:0-99", "alarm:3:5-7"]}}}
VOLUME = {"output": {"storageRef": {"name": "carry"}, "folder": "gaps"}}
BUCKET = {
    "output": {"storageRef": {"name": "store"}, "folder": "gaps"},
}
LARGE = {
    "engine": {
        "type": "SparkApplication",
        "image": "registry.example/spark:2",
        "serviceAccountName": "own",
        "driver": {"cores": 2, "cpu": "500m", "memory": "2Gi"},
        "executor": {"instances": 3, "cores": 4, "cpu": "3", "memory": "4Gi"},
    }
}
KEPT = {
    "source": {
        "events": {
            "topics": ["transfer"],
            "manifest": {"configMap": {"name": "upstream", "keys": ["north.json", "south.json"]}},
            "state": {"storageRef": {"name": "carry"}, "folder": "state/night"},
        }
    }
}
STORED = {
    "source": {
        "events": {
            "topics": ["transfer"],
            "state": {"storageRef": {"name": "store"}, "folder": "night"},
        }
    }
}
OVER_THE_LINK = {
    "source": {
        "events": {
            "topics": ["transfer"],
            "manifest": {
                "topic": "internal",
                "expectTopics": ["transfer", "alarm"],
                "verifyKey": {"configMap": {"name": "upstream", "key": "signer.pem"}},
            },
        }
    }
}
INFER = {
    "source": {
        "gapTopic": {"topic": "gaps", "infer": True, "inferTails": "All", "skipStale": True, "detectorWindows": 8}
    }
}
CASES: dict[str, dict[str, Any]] = {
    "job-signed": {"signingKeySecret": {"name": "signing"}},
    "job": {},
    "job-secure-events-volume": {**SECURE, **EVENTS, **VOLUME, "engine": {"type": "Job", "driver": {"cpu": "250m"}}},
    "application": {"spark_operator": True},
    "job-infer": INFER,
    "job-events-manifest-state-beside-output": {**KEPT, **VOLUME},
    "job-events-manifest-over-the-link": OVER_THE_LINK,
    "application-events-state-in-a-bucket": {"spark_operator": True, **STORED},
    "application-secure-bucket": {"spark_operator": True, **SECURE, **BUCKET, **LARGE},
}


class Readable(yaml.SafeDumper):
    """Writes text line by line and nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- as PyYAML calls it
        return True


def _text(dumper: Readable, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Readable.add_representer(str, _text)


def written(cluster: Make, case: dict[str, Any]) -> list[Any]:
    made = cluster(**case)
    return list(made.plan().apply)


@pytest.mark.parametrize("name", CASES)
def test_an_attempt_matches_its_golden_files(cluster: Make, name: str) -> None:
    text = yaml.dump_all(written(cluster, CASES[name]), Dumper=Readable, sort_keys=True, width=120)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("GAPLESS_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "see the difference, then GAPLESS_UPDATE_GOLDEN=1"


@pytest.mark.parametrize("name", CASES)
def test_the_command_understands_every_line_of_its_settings(cluster: Make, tmp_path: Path, name: str) -> None:
    settings, attempt = written(cluster, CASES[name])
    file = tmp_path / "scan.properties"
    file.write_text(settings["data"]["scan.properties"], encoding="utf-8")
    command = AUDIT if "events" in name else SCAN
    found = resolve(command, file=file, environment={}, options={})
    assert not found.ignored
    assert set(found.sources) == {key for _, key, _ in read_properties(file)}
    assert found.values["resultLines"] is True
    spec = attempt["spec"]
    arguments = spec["arguments"] if "arguments" in spec else spec["template"]["spec"]["containers"][0]["args"]
    allowed = "*" if "secure" in name else "gaps,transfer,alarm,internal"
    head = ["audit" if command is AUDIT else "scan", "/etc/gapless/scan.properties"]
    assert arguments == [*head, f"--allowed-topics={allowed}"]
    options = {"allowedTopics": allowed}
    assert str(resolve(command, file=file, environment={}, options=options).values["allowedTopics"]) == allowed


def pods_of(attempt: Any) -> list[dict[str, Any]]:
    spec = attempt["spec"]
    if attempt["kind"] == "Job":
        return [spec["template"]["spec"]]
    return [spec["driver"]["template"]["spec"], spec["executor"]["template"]["spec"]]


@pytest.mark.parametrize("name", CASES)
def test_every_pod_keeps_the_restricted_level_and_has_no_token_that_it_does_not_need(cluster: Make, name: str) -> None:
    _, attempt = written(cluster, CASES[name])
    for number, pod in enumerate(pods_of(attempt)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        needs_the_api = attempt["kind"] == "SparkApplication" and number == 0
        assert pod.get("automountServiceAccountToken", True) is needs_the_api
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        assert not [entry for entry in container["env"] if "valueFrom" in entry], "secrets are files"


def test_both_engines_run_the_same_image_with_the_same_arguments_and_settings(cluster: Make) -> None:
    (one, job), (other, application) = written(cluster, {}), written(cluster, {"spark_operator": True})
    assert one == other
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == application["spec"]["image"]
    assert container["args"] == application["spec"]["arguments"]


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a" * 63, "a" * 20),
        ("7up", "scan-7up-"),
        ("with.dots", "with-dots-"),
        ("night", "night-"),
    ],
)
def test_the_name_of_an_attempt_is_short_enough_for_spark(cluster: Make, name: str, begins: str) -> None:
    settings, attempt = written(cluster, {"name": name})
    found = attempt["metadata"]["name"]
    assert found.startswith(begins)
    assert len(found) <= 40
    assert settings["metadata"]["name"] == f"{found}-settings"
    assert found[0].isalpha()
    assert "." not in found
