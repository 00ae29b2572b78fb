"""Histories of a mirror that showed a defect, or that random ones reach rarely; each is a sequence of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.mirror_site import MirrorSite

pytestmark = pytest.mark.integration


def test_a_source_that_was_cut_and_has_grown_beyond_the_position_is_copied_from_the_cut(
    mirror_site: Callable[..., MirrorSite],
) -> None:
    site = mirror_site(1)
    site.produce(0, 4)
    site.produce(0, 4)
    site.mirror()
    site.cut_source(0, 1)
    site.produce(0, 9)
    site.mirror()
