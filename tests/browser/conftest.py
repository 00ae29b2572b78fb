"""The browser and the pages of the report page tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from kit.story.big_finding import write_big_page, write_page_of_big_verify

if TYPE_CHECKING:
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
_TIMEOUT_MS = 120_000
"""Long, because the machine may be busy."""
VIEWPORT = {"width": 960, "height": 1104}


class Written(NamedTuple):
    """The files of the pages, and the report of the scan."""

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
    assert program is not None, "chromium is missing: run `make test-browser`, which installs it"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, written: Written) -> Iterator[OpenPage]:
    """Opens the scan's page, or another one, in a new browser context; console messages and errors fail the test."""
    contexts: list[BrowserContext] = []
    messages: list[str] = []

    def open_in_context(path: Path = written.page, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": VIEWPORT, **options})
        context.set_default_timeout(_TIMEOUT_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield open_in_context
    for context in contexts:
        context.close()
    assert messages == []
