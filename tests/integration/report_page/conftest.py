"""Owns the browser of these tests and the pages it opens."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from playwright.sync_api import sync_playwright

from kit.story.big_finding import write_big_page, write_page_of_big_verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

    OpenPage = Callable[..., Page]

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PATIENCE_MS = 120_000
"""On a machine that is busy with other things."""
VIEWPORT = {"width": 960, "height": 1104}


class Written(NamedTuple):
    """The pages, as files, and the report of the big one."""

    page: Path
    report: dict[str, Any]
    verify_page: Path


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("pages")
    page, report = write_big_page(folder)
    return Written(page, report, write_page_of_big_verify(folder))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program is not None, "say `make test`, which gets a browser"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, written: Written) -> Iterator[OpenPage]:
    """Opens the big page, or another one, in a browser that is new inside; what complains there fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def opened(path: Path = written.page, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": VIEWPORT, **options})
        context.set_default_timeout(_PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
