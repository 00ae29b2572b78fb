from __future__ import annotations

import importlib
import pkgutil

import pytest

from gapless_api.base import errors
from gapless_api.base.errors import ERROR_OUTCOMES, GaplessError, StoppedError, error_outcome, reason_of_exit_code
from gapless_api.base.exit_codes import ExitCode

PACKAGES = ("gapless_api", "gapless_kafka", "gapless_archive", "gapless_sender", "gapless_spark", "gapless_operator")


def import_everything() -> None:
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)


def below(kind: type[GaplessError]) -> list[type[GaplessError]]:
    return [each for child in kind.__subclasses__() for each in (child, *below(child))]


def test_every_error_of_every_package_has_an_outcome() -> None:
    import_everything()
    found = below(GaplessError)
    assert len(found) >= len(ERROR_OUTCOMES)
    without = [kind.__name__ for kind in found if not any(base in ERROR_OUTCOMES for base in kind.__mro__)]
    assert without == []


def test_every_error_of_the_contract_stands_in_the_table_itself() -> None:
    own = [kind for kind in below(GaplessError) if kind.__module__ == errors.__name__]
    assert set(own) == set(ERROR_OUTCOMES)


def test_reasons_are_fit_for_a_kubernetes_condition_and_tell_the_classes_apart() -> None:
    reasons = [found.condition_reason for found in ERROR_OUTCOMES.values()]
    assert len(set(reasons)) == len(reasons)
    assert all(reason.isalpha() and reason[0].isupper() for reason in reasons)


def test_no_outcome_is_success_or_the_code_of_a_defect() -> None:
    assert all(found.exit_code not in {ExitCode.DONE, 1} for found in ERROR_OUTCOMES.values())


@pytest.mark.parametrize(("by_terminal", "code"), [(True, 130), (False, 143)])
def test_a_signal_decides_the_exit_code(by_terminal: bool, code: int) -> None:  # noqa: FBT001
    assert error_outcome(StoppedError("stopped", by_terminal=by_terminal)).exit_code == code


def test_a_subclass_has_the_outcome_of_the_nearest_class() -> None:
    class StrangeBundleError(errors.BundleError):
        pass

    assert error_outcome(StrangeBundleError("x")) == ERROR_OUTCOMES[errors.BundleError]


def test_an_exit_code_has_the_reason_of_the_first_error_that_ends_with_it() -> None:
    failures = {code: reason_of_exit_code(code) for code in ExitCode}
    assert failures == {
        ExitCode.DONE: None,
        ExitCode.BAD_CONFIGURATION: "BadConfiguration",
        ExitCode.SOURCE_UNREACHABLE: "SourceUnreachable",
        ExitCode.INCOMPLETE: None,
        ExitCode.MISSING: None,
        ExitCode.LINK_FAILED: "LinkFailed",
        ExitCode.INTERRUPTED: "Stopped",
        ExitCode.TERMINATED: "Stopped",
    }
    assert [reason_of_exit_code(code) for code in (None, 1, 137)] == [None] * 3
