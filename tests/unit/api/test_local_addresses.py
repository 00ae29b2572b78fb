"""Which addresses are the machine's own, its link's, or its cloud's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.local_addresses import is_local, refuse_local


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.0.9",
        "0.0.0.0",  # noqa: S104 -- nothing is bound
        "0.1.2.3",
        "169.254.169.254",
        "100.100.100.200",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "febf::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.1.1",
        "fd00:ec2::254",
    ],
)
def test_an_address_that_only_the_machine_or_its_link_reaches_is_local(address: str) -> None:
    assert is_local(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "172.16.0.1", "8.8.8.8", "fd00::1", "2001:db8::1"])
def test_an_address_of_another_machine_is_not(address: str) -> None:
    assert not is_local(address)


def test_names_are_refused_by_what_they_resolve_to_and_those_that_do_not_resolve_are_left_alone() -> None:
    refuse_local([("10.0.0.1", 9092), ("no-such-host.invalid", 9092)], what="The broker")
    with pytest.raises(ConfigurationError, match=r"^The broker localhost:9092 resolves to (127\.0\.0\.1|::1), a loop"):
        refuse_local([("10.0.0.1", 9092), ("localhost", 9092)], what="The broker")


@pytest.mark.parametrize("endpoint", ["http://localhost:9000", "http://127.0.0.1", "https://[::1]:9000/"])
def test_a_store_on_the_machine_itself_is_not_fetched_from_where_that_is_refused(endpoint: str, tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "gapless"
    arguments = ["s3://bucket/bundle.json", f"--output={tmp_path / 'bundle'}", f"--endpoint-url={endpoint}"]
    done = subprocess.run(
        [program, "bundle", "fetch", *arguments, "--refuse-local-endpoint"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "The store " in done.stderr
    assert "a loopback, link-local or metadata address" in done.stderr
