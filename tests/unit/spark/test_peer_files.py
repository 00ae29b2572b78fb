"""The proof that every public settings file of the peer serves every command that reads such files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import SettingsTable, resolve
from gapless_sender.settings.inventory import INVENTORY
from gapless_sender.settings.resend import RESEND
from gapless_spark.settings.archive import ARCHIVE
from gapless_spark.settings.tables import AUDIT, CREATE, SCAN
from gapless_spark.verify.settings import VERIFY

LIST = Path(__file__).parents[1] / "vectors" / "air-gap-settings.tsv"
TABLES = {
    "create": CREATE,
    "scan": SCAN,
    "audit": AUDIT,
    "resend": RESEND,
    "inventory": INVENTORY,
    "verify": VERIFY,
    "archive": ARCHIVE,
}
SERVES = {"create": ("create", "upstream"), "scan": ("create", "upstream"), "resend": ("resend",)}
"""The files whose values are valid for a command, too."""
REQUIRED = (
    "bootstrapServers=kafka:9092",
    "topic=transfer",
    "archive=/a",
    "region=r",
    "bundle=b.json",
    "targetIP=::1",
    "targetPort=9",
)


def files() -> dict[str, dict[str, str]]:
    """Return the settings of each of the peer's files, and one file with every setting."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in LIST.read_text(encoding="utf-8").splitlines()[1:]:
        name, _, values = line.partition("\t")
        found["all.properties"][name] = ""
        for each in filter(None, values.split("; ")):
            file, _, value = each.partition("=")
            found[file][name] = value
    return found


def lines(table: SettingsTable, settings: Mapping[str, str]) -> list[str]:
    required = [line for line in REQUIRED if line.partition("=")[0] in table.by_name()]
    return [*required, *(f"{name}={value}" for name, value in settings.items() if value or len(settings) > 40)]


@pytest.mark.parametrize("command", TABLES)
def test_every_file_of_the_peer_serves_every_command(command: str, tmp_path: Path) -> None:
    refused = {}
    for name, settings in files().items():
        (tmp_path / name).write_text("\n".join(lines(TABLES[command], settings)), encoding="utf-8")
        try:
            resolve(TABLES[command], file=tmp_path / name, environment={}, options={})
        except ConfigurationError as error:
            if name.startswith(SERVES.get(command, ())) or "Unknown setting" in str(error):
                refused[name] = str(error)
    assert refused == {}


def test_the_list_has_the_files_of_all_programs() -> None:
    found = files()
    programs = {name.partition("-")[0].partition(".")[0] for name in found}
    assert programs >= {"create", "resend", "upstream", "downstream"}
    everything = set(found["all.properties"])
    assert {"resultFileName", "clientId", "verbose", "tcpTLSCAFile", "rcvBufSize", "mode"} <= everything


def test_a_mistake_is_still_unknown(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("topc=x\n")
    with pytest.raises(ConfigurationError, match="Unknown setting topc"):
        resolve(CREATE, file=tmp_path / "file", environment={}, options={})
