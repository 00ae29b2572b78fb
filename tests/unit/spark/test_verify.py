"""`gapless verify OLD --against=FILE`: what a person is told, and how it ends."""

from __future__ import annotations

import json
import re
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyroaring import BitMap

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.reconciliation import MAX_PARTITIONS
from gapless_api.bundle.writer import write_bundle
from gapless_api.cli import main
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.form import members_of
from gapless_api.wire.totals import Totals
from gapless_archive.store.access import S3Access
from gapless_archive.store.object_store import ObjectAddress
from gapless_kafka.access.connection import KafkaConnection
from gapless_spark.model.gap_windows import CompleteWindows, LatestRecord, ScanOptions, read_windows
from gapless_spark.model.outcome import Conclusion, Outcome
from gapless_spark.model.scan_outcome import conclude_scan
from gapless_spark.output.comparison import compare_with_older, newer_finding
from gapless_spark.settings.tables import AUDIT, SCAN
from gapless_spark.verify.settings import VERIFY
from kit.story import messages

if TYPE_CHECKING:
    Verify = Callable[..., "Ended"]

NOWHERE = KafkaConnection(bootstrap_servers="127.0.0.1:1")


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str
    report: dict[str, Any] | None


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Verify:
    def run(*arguments: str | Path) -> Ended:
        report = tmp_path / "out" / "report.json"
        report.parent.mkdir(exist_ok=True)
        monkeypatch.setattr(sys, "argv", ["gapless", "verify", *map(str, arguments), f"--report={report}"])
        with pytest.raises(SystemExit) as ended:
            main.main()
        said = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, said.out, said.err, json.loads(report.read_text()) if report.exists() else None)

    return run


def gaps(*pairs: tuple[int, int], partition: int = 0, last: int = 99) -> PartitionGaps:
    return PartitionGaps("transfer", partition, 0, last, OffsetRanges(pairs))


def bundle(
    folder: Path,
    name: str,
    *entries: PartitionGaps,
    kind: BundleKind = BundleKind.ALL,
    day: int = 20,
    command: str = "",
) -> Path:
    path = folder / name
    source = {"command": command} if command else {}
    write_bundle(path, kind, entries, created=datetime(2026, 11, day, tzinfo=UTC), source=source)
    return path


def resend_report(folder: Path, **kinds: list[list[int]]) -> Path:
    path = folder / "resend.json"
    figures = {"topic": "transfer", "partition": 0, "upstreamTopic": "transfer", "upstreamPartition": 0}
    partition = {**figures, **dict.fromkeys(members_of(Totals), 0), "ranges": kinds}
    path.write_text(json.dumps({"gaplessReport": 1, "started": "2026-11-20T10:00:00Z", "partitions": [partition]}))
    return path


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_short_form_of_a_resend_report_is_refused(tmp_path: Path, verify: Verify, version: int) -> None:
    """It lists what could not be sent and not what was: taken for a whole one, nothing would be unavailable."""
    old, new = bundle(tmp_path, "old", gaps((5, 9))), bundle(tmp_path, "new", gaps((5, 9)))
    path = tmp_path / "short.json"
    short = {**messages.report(Totals(planned=5, unavailable=5)), "gaplessReport": version}
    path.write_text(json.dumps({name: value for name, value in short.items() if version != 1 or name != "form"}))
    ended = verify(old, f"--against={new}", f"--resend-report={path}")
    assert ended.code == 2
    assert f"has version {version}, and this program reads version 4" in ended.err
    assert "it is the short form" in ended.err


def test_offsets_that_the_peers_bundle_repeats_count_once(tmp_path: Path, verify: Verify) -> None:
    """Its create repeats offsets, out of order, when its window size has changed."""
    old, new = tmp_path / "old", bundle(tmp_path, "new", gaps((46, 46)))
    listed = {"topic": "transfer", "partition": 0, "window_min": 0, "window_max": 99}
    old.write_text(json.dumps({"type": "all", "results": [{**listed, "gaps": [[3], [45, 46], [45, 47], [20]]}]}))
    ended = verify(old, f"--against={new}")
    assert ended.report is not None
    assert "The bundle lists 2 offsets more than once; each counts once." in ended.err
    compared = comparison(conclusion(Outcome.NOTHING_MISSING), old)
    assert compared["open"] + compared["closed"] + compared["unknown"] == 5


def test_gaps_that_have_closed_end_with_0(tmp_path: Path, verify: Verify) -> None:
    old, new = bundle(tmp_path, "old", gaps((5, 9))), bundle(tmp_path, "new", gaps((50, 51)))
    ended = verify(old, f"--against={new}")
    assert (ended.code, ended.err) == (0, "")
    assert "All 5 offsets of the older bundle have closed: 5 arrived. 2 offsets are missing now" in ended.out
    assert ended.report is not None
    assert (ended.report["outcome"], ended.report["exit_code"]) == ("settled", 0)
    assert ended.report["reconciliation"]["closed"] == 5


def test_gaps_that_are_open_or_not_looked_at_end_with_4_and_are_named(tmp_path: Path, verify: Verify) -> None:
    old = bundle(tmp_path, "old", gaps((5, 9), (98, 99)), gaps((1, 1), partition=7))
    ended = verify(old, "--against", bundle(tmp_path, "new", gaps((8, 12), last=97)))
    assert ended.code == 4
    assert ended.err == (
        "gapless: Of 8 offsets of the older bundle still open: 2, not checked: 3 (3 arrived). 3 "
        "offsets are missing now that it does not list.\n"
    )
    rows = [line.split() for line in ended.out.splitlines()]
    assert ["transfer/0", "7", "3", "0", "0", "2", "2", "3", "8", "to", "9"] in rows
    assert ["transfer/7", "1", "0", "0", "0", "0", "1", "0", "1"] in rows
    assert ended.report is not None
    assert ended.report["outcome"] == "gaps-left"


def test_a_bundle_that_was_created_before_the_older_one_closes_nothing(tmp_path: Path, verify: Verify) -> None:
    """Both are files of one folder, and easily taken for each other."""
    first = bundle(tmp_path, "first", gaps(), command="gapless audit")
    second = bundle(tmp_path, "second", gaps((5, 9)), day=21, command="gapless scan")
    ended = verify(second, f"--against={first}")
    assert ended.code == 2
    assert f"{first} was created at 2026-11-20T00:00:00Z, before {second} (2026-11-21T00:00:00Z)" in ended.err
    assert verify(first, f"--against={second}").code == 0
    typed = bundle(tmp_path, "typed", gaps((5, 9)), day=22, command="gapless bundle from-text")
    assert verify(typed, f"--against={first}").code == 0, "its date is not that of the scan"


def test_the_reports_of_resends_settle_what_can_never_arrive(tmp_path: Path, verify: Verify) -> None:
    old, new = bundle(tmp_path, "old", gaps((5, 9))), bundle(tmp_path, "new", gaps((9, 9)))
    said = resend_report(tmp_path, filled=[[5, 6]], Expired=[[9, 9]])
    assert verify(old, f"--against={new}").code == 4
    ended = verify(old, f"--against={new}", f"--resend-report={said}")
    assert ended.code == 0
    assert (
        "None of the 5 offsets of the older bundle is still open: 2 arrived, 2 closed with an empty event, 1 "
        "permanently unavailable upstream." in ended.out
    )


def test_the_page_says_what_became_of_the_older_bundle_and_what_comes_next(tmp_path: Path, verify: Verify) -> None:
    old = bundle(tmp_path, "old.json", gaps((3, 5), (50, 59)), gaps((0, 9), partition=1))
    new = bundle(tmp_path, "new.json", gaps((50, 59)))
    page = tmp_path / "page.html"
    ended = verify(old, f"--against={new}", f"--html={page}")
    assert ended.report is not None
    shown = unescape(re.sub("<[^>]*>", "", page.read_text().replace("<td", " <td")))
    assert (ended.code, ended.report["message"].split(". ")[0] in shown) == (4, True)
    assert "transfer 0 13 3 0 0 10 0 0 50" in shown
    assert "transfer 1 10 0 0 0 0 10 0 0" in shown
    assert "gapless audit --bootstrap-servers=KAFKA --topics=RECEIVED --resend-file-name=again.json" in shown
    assert f"gapless verify {old} --bootstrap-servers=KAFKA --topics=RECEIVED --expect-inventory=INVENTORY" in shown


@pytest.mark.parametrize("address", ["s3://Bundles/old.json", "s3://bundles/old/"])
def test_an_address_that_is_none_is_one_sentence(verify: Verify, address: str) -> None:
    ended = verify(address, "--against=audit")
    assert ended.code == 2
    assert ended.err.startswith(f"gapless: Invalid value for 'OLD': '{address}' must be ")


def test_a_page_that_cannot_be_written_is_found_before_the_comparison(tmp_path: Path, verify: Verify) -> None:
    old = bundle(tmp_path, "old.json", gaps((3, 5)))
    ended = verify(old, f"--against={old}", f"--html={tmp_path}")
    assert (ended.code, "it is a folder" in ended.err) == (2, True)


def test_every_partition_is_in_the_report(tmp_path: Path, verify: Verify) -> None:
    many = [gaps((1, 1), partition=number) for number in range(MAX_PARTITIONS + 20)]
    ended = verify(bundle(tmp_path, "old", *many), f"--against={bundle(tmp_path, 'new')}")
    assert ended.report is not None
    assert len(ended.report["reconciliation"]["partitions"]) == MAX_PARTITIONS + 20
    assert "and 60 more partitions" in ended.out


def test_a_bundle_that_cannot_be_read_ends_with_2_and_the_report_says_so(tmp_path: Path, verify: Verify) -> None:
    old = bundle(tmp_path, "old", gaps((5, 9)))
    ended = verify(old, f"--against={tmp_path / 'missing'}")
    assert ended.code == 2
    assert "cannot be read" in ended.err
    assert ended.report is not None
    assert ended.report["outcome"] == "bad-configuration"
    old.write_text(old.read_text().replace("[5,9]", "[5,8]"))
    assert "was altered" in verify(old, f"--against={old}").err


@pytest.mark.parametrize("way", ["scan", "audit"])
@pytest.mark.parametrize("missing", ["bootstrapServers", "topics"])
def test_to_look_again_needs_kafka(tmp_path: Path, verify: Verify, way: str, missing: str) -> None:
    given = {"bootstrapServers": "k:1", "topics": "t"}
    options = [f"--{name}={text}" for name, text in given.items() if name != missing]
    ended = verify(bundle(tmp_path, "old"), f"--against={way}", *options)
    assert ended.code == 2
    assert f"The setting {missing} is missing" in ended.err


def test_a_scan_reads_one_topic(tmp_path: Path, verify: Verify) -> None:
    ended = verify(bundle(tmp_path, "old"), "--against=scan", "--bootstrap-servers=k:1", "--topics=a,b")
    assert (ended.code, "one gaps topic" in ended.err) == (2, True)


def test_files_of_scan_and_audit_serve_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("bootstrapServers=k:1\ntopic=gaps\nresendFileName=b\nlimit=first\ntargetIP=1.2.3.4\nreport=r\n")
    found = resolve(VERIFY, file=file, environment={}, options={})
    assert found.values["topics"] == ("gaps",)
    assert set(found.ignored) == {"resendFileName", "limit", "targetIP"}
    names = {setting.name for setting in VERIFY.settings}
    for table in (SCAN, AUDIT):
        assert {s.name for s in table.settings} - names - set(VERIFY.foreign) - {"topic"} == set()
    with pytest.raises(ConfigurationError):
        resolve(VERIFY, file=None, environment={}, options={"parallelism": "none"})


def conclusion(outcome: Outcome, *results: PartitionGaps) -> Conclusion:
    return Conclusion(outcome, "", results, ())


def comparison(concluded: Conclusion, older: Path | ObjectAddress) -> dict[str, Any]:
    found: dict[str, Any] = compare_with_older(concluded, older, S3Access(), NOWHERE)["reconciliation"]
    return found


def test_records_that_cannot_be_read_let_no_gap_pass_for_closed(tmp_path: Path) -> None:
    older = bundle(tmp_path, "old", gaps((5, 9)))
    said = comparison(conclusion(Outcome.UNREADABLE_RECORDS, gaps((5, 5))), older)
    assert (said["open"], said["unknown"], said["closed"]) == (1, 4, 0)
    said = comparison(conclusion(Outcome.GAPS_FOUND, gaps((5, 5))), older)
    assert said["closed"] == 4
    assert newer_finding(conclusion(Outcome.GAPS_FOUND)).kind is BundleKind.ALL


def test_stale_records_that_a_scan_left_out_let_no_gap_pass_for_closed(tmp_path: Path) -> None:
    older = bundle(tmp_path, "old", gaps((1, 1), (5, 9), (12, 12), last=59), command="gapless scan")
    stale = LatestRecord(b"transfer:0:0", struct.pack(">Bqq", 1, 0, 9) + BitMap([5, 6, 7]).serialize(), 0, 0)
    later = [CompleteWindows("transfer", 0, 10, 59, 5)]
    for skip_stale, counts in ((True, (0, 3, 4)), (False, (3, 0, 4))):
        found = read_windows([stale], later, options=ScanOptions(skip_stale=skip_stale))
        concluded = conclude_scan("gaps", found, "compact", has_lost_records=False)
        said = comparison(concluded, older)
        assert (said["open"], said["unknown"], said["closed"]) == counts
        assert ("run gapless audit --topics=transfer where" in said["sentence"]) is skip_stale


def test_an_older_bundle_that_is_gone_spoils_no_job(tmp_path: Path) -> None:
    said = comparison(conclusion(Outcome.NOTHING_MISSING), tmp_path / "gone")
    assert said["with"] is None
    assert "gone cannot be read" in said["problem"]
    assert compare_with_older(conclusion(Outcome.NOTHING_MISSING), None, S3Access(), NOWHERE) == {}


def test_an_older_bundle_for_which_there_is_no_room_spoils_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    place = ObjectAddress.parse("s3://bundles/old.json")
    said = comparison(conclusion(Outcome.NOTHING_MISSING), place)
    assert said["with"] is None
    assert "temporary folder cannot be created" in said["problem"]
