"""The addresses that no spec may name are those that a sender refuses: one rule, written for CEL and for a socket."""

from __future__ import annotations

import re
from functools import cache

import celpy
import pytest

from gapless_api.base.local_addresses import is_local
from gapless_api.v1alpha1.hosts import HOST, LOCAL
from gapless_api.v1alpha1.kafka_connection import KafkaConnectionSpec
from gapless_api.v1alpha1.storage_location import S3Location

LOCAL_ADDRESSES = (
    "0.0.0.0",  # noqa: S104 -- nothing is bound
    "0.1.2.3",
    "0.255.255.255",
    "127.0.0.1",
    "127.1.2.3",
    "127.255.255.255",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.255.255",
    "100.100.100.200",
    "::",
    "::1",
    "0:0:0:0:0:0:0:0",
    "0:0:0:0:0:0:0:1",
    "0000:0000:0000:0000:0000:0000:0000:0001",
    "0::1",
    "::0:1",
    "::0001",
    "fe80::1",
    "FE80::1",
    "fe9f::1",
    "feaf::",
    "febf:ffff::1",
    "::ffff:7f00:1",
    "::FFFF:a9fe:a9fe",
    "0:0:0:0:0:ffff:7f00:1",
    "::ffff:0:1",
    "fd00:ec2::23",
    "fd00:ec2::254",
    "fd00:0ec2::254",
    "FD00:EC2:0:0:0:0:0:254",
)
OTHER_ADDRESSES = (
    "1.0.0.0",
    "8.8.8.8",
    "10.0.0.1",
    "10.127.0.0",
    "100.100.100.20",
    "100.100.100.201",
    "100.100.200.100",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "169.255.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "255.255.255.255",
    "::2",
    "::10",
    "1::",
    "1::1",
    "::1:0",
    "1:0:0:0:0:0:0:1",
    "fd00::1",
    "fd00:ec20::254",
    "fd00:ec3::254",
    "fe8::1",
    "fe00::1",
    "fe7f::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "2001:db8::ffff:7f00:1",
)


RULES = {
    "bootstrapServers": (KafkaConnectionSpec, "kafka-0:9092, {}:9092,kafka-1:9092"),
    "endpoint": (S3Location, "https://{}:9000"),
}
"""The model that has the field, and a value with an address in it."""


@cache
def rule(field: str) -> celpy.Runner:
    """What the API server asks about the addresses in a field."""
    [expression] = [rule.cel for rule in RULES[field][0].RULES if "link-local" in rule.message]
    environment = celpy.Environment()
    return environment.program(environment.compile(expression))


def is_refused(address: str, field: str) -> bool:
    host = f"[{address}]" if ":" in address else address
    assert re.fullmatch(HOST, host), "a spec may have it, but for this rule"
    spec = {field: RULES[field][1].format(host)}
    refused = not rule(field).evaluate({"self": celpy.json_to_cel(spec)})
    assert refused is (re.fullmatch(LOCAL, host) is not None), "the same for RE2 and for Python"
    return refused


@pytest.mark.parametrize("field", RULES)
@pytest.mark.parametrize("address", LOCAL_ADDRESSES + OTHER_ADDRESSES)
def test_the_api_server_refuses_the_addresses_that_a_sender_refuses(address: str, field: str) -> None:
    assert (is_refused(address, field), is_local(address)) == (address in LOCAL_ADDRESSES,) * 2


@pytest.mark.parametrize("field", RULES)
def test_a_spec_has_an_ipv4_address_as_four_numbers_only_while_a_name_may_resolve_to_it_in_ipv6(field: str) -> None:
    assert is_refused("::ffff:a00:1", field)
    assert not is_local("::ffff:a00:1")
