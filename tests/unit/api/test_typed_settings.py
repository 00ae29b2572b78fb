"""The proof that a settings class declares each setting once, and holds its value under the name of its field."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gapless_api.base.quantities import integer
from gapless_api.base.settings import Setting
from gapless_api.base.typed_settings import TypedSettings, declare, include, value_of

_SHARED = Setting("connectTimeout", "How long to wait.", parse=integer(0), default=10)
_ELSEWHERE = Setting("logLevel", "Minimum log level.", default="INFO")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleSettings(TypedSettings):
    """Settings of each form."""

    target_ip: str = declare("targetIP", "Where to send.", required=True)
    rates: dict[str, int] = declare("rates", "What a rate may be.", default={})
    timeout_seconds: int = include(_SHARED)
    log_level: str = value_of(_ELSEWHERE)


def test_a_class_declares_its_settings_in_order_and_not_those_that_it_only_holds() -> None:
    assert [setting.name for setting in ExampleSettings.declared()] == ["targetIP", "rates", "connectTimeout"]


def test_values_are_taken_by_the_names_of_settings() -> None:
    found = ExampleSettings.of({"targetIP": "::1", "rates": {"eps": 1}, "connectTimeout": 3, "logLevel": "WARN"})
    assert (found.target_ip, found.rates, found.timeout_seconds, found.log_level) == ("::1", {"eps": 1}, 3, "WARN")


def test_a_setting_that_the_command_does_not_have_keeps_its_default() -> None:
    found = ExampleSettings.of({"targetIP": "::1"})
    assert (found.rates, found.timeout_seconds, found.log_level) == ({}, 10, "INFO")


def test_a_required_setting_that_is_missing_is_an_error() -> None:
    with pytest.raises(KeyError, match="targetIP"):
        ExampleSettings.of({"connectTimeout": 3})
