"""What the status of a mirror says, and whether that is true."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from state.mirror_oracle import HOLDS, UNKNOWN

if TYPE_CHECKING:
    import subprocess

    from state.mirror_site import MirrorSite, Seen


def read_status(site: MirrorSite) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the status. When it says that a cluster does not answer, it is asked again then."""
    for _ in range(5):
        done = site.run("mirror", "status", f"--name={site.name}", "--json")
        status: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        unknown = [each for each in status.get("partitions", ()) if each["state"] == UNKNOWN]
        if done.returncode != 3 and not unknown:
            assert status or (done.returncode == 2 and "has no mirror" in done.stderr), done.stderr
            return done.returncode, status
        _check_unreached(site, done, unknown)
    raise AssertionError(f"five times not reached, although both clusters answered after each: {done.stderr}")


def _check_unreached(site: MirrorSite, done: subprocess.CompletedProcess[str], unknown: list[dict[str, Any]]) -> None:
    """Check that a status that could not reach a cluster says so and claims nothing; wait until both answer."""
    print(f"{site.name}: status not reached, exit code {done.returncode}: {done.stderr} {unknown}", flush=True)
    servers = (site.kafka.bootstrap, site.target.bootstrap)
    assert unknown or (not done.stdout and any(each in done.stderr for each in servers)), done.stderr
    assert all(each["lag"] is None and "answer" in each["note"] for each in unknown), unknown
    assert done.returncode in ({4} if unknown else {3}), done.stderr
    for cluster in (site.kafka, site.target):
        cluster.admin().list_topics(timeout=60)


def check_status(site: MirrorSite, seen: Seen, code: int, status: dict[str, Any]) -> None:
    """Check the state and the lag of each partition, and the exit code."""
    if not site.oracle.copied:
        assert not status.get("partitions"), status
        return
    listed = {each["partition"] for each in status["partitions"]}
    assert listed == set(site.oracle.copied) | set(seen.source.logs), status
    for each in status["partitions"]:
        p = each["partition"]
        assert each["begun"] == (p in site.oracle.copied), status
        if not each["begun"]:
            records = len(seen.source.logs[p].records)
            assert each["lag"] is None or each["lag"] >= records, f"{each}, which is not begun and has {records}"
            assert (each["lag"] is None) == (each["state"] == "RetentionOvertook"), each
            continue
        state = site.oracle.state(p, *seen)
        assert each["state"] == state, f"{each} instead of {state}, {site.oracle.copied[p]}, {seen}"
        assert (each["lag"] is None) == (state != HOLDS), each
        if state == HOLDS:
            pending = site.oracle.pending(p, seen.source)
            assert each["lag"] >= len(pending), f"{each}, but pending {pending}"
    holds = all(each["state"] == HOLDS for each in status["partitions"])
    assert code == (0 if holds else 4), status
