"""What a person sees, in every theme and without scripts, and that the page asks nobody for anything."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.page.shading import HEIGHTS, TRACK, shade

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from conftest import OpenPage, Written

pytestmark = pytest.mark.integration

REFERENCES = Path(__file__).parents[2] / "docs" / "images"
"""The pictures of the page's description, so that they show what the page looks like."""
MOST_DIFFERENCE = 6.0
"""Mean difference of grey values, of 255: fonts and browsers may differ a little, a page in disorder differs more."""
LEAST_CONTRAST = 4.5

_GREY = """async (picture) => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
  [canvas.width, canvas.height] = [64, 74];
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, 64, 74);
  const { data } = context.getImageData(0, 0, 64, 74), grey = [];
  for (let i = 0; i < data.length; i += 4) grey.push(0.299 * data[i] + 0.587 * data[i + 1] + 0.114 * data[i + 2]);
  return grey;
}"""

_SHARE_COVERED = """async (picture) => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const { naturalWidth: width, naturalHeight: height } = image;
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
  [canvas.width, canvas.height] = [width, height];
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, width, height), found = new Map();
  const colour = (i) => (data[i] << 16) | (data[i + 1] << 8) | data[i + 2];
  for (let i = 0; i < data.length; i += 4) found.set(colour(i), (found.get(colour(i)) || 0) + 1);
  const [ground] = [...found].sort(([, a], [, b]) => b - a)[0];
  const apart = (i) => [16, 8, 0].reduce((sum, bits, k) => sum + Math.abs(data[i + k] - ((ground >> bits) & 255)), 0);
  let covered = 0;
  for (let i = 0; i < data.length; i += 4) if (apart(i) > 80) covered += 1;
  return covered / (width * height);
}"""

_CONTRASTS = """() => {
  const light = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * light(r / 255) + 0.7152 * light(g / 255) + 0.0722 * light(b / 255);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
  };
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const found = [];
  for (const element of document.body.querySelectorAll("*:not(script)")) {
    const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!own || !element.checkVisibility()) continue;
    const two = [channels(getComputedStyle(element).color), ground(element)].map(luminance);
    found.push([(Math.max(...two) + 0.05) / (Math.min(...two) + 0.05), element.outerHTML.slice(0, 80)]);
  }
  return found;
}"""


@pytest.mark.parametrize("which", ["page", "verify_page"])
def test_the_page_asks_for_nothing_but_itself(browser: Browser, written: Written, which: str) -> None:
    path: Path = getattr(written, which)
    page = browser.new_page()
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri(), wait_until="networkidle")
    assert page.locator("h1").is_visible()
    assert page.locator("table.sortable th button").count() > 5, "the script runs"
    assert (asked, said) == ([path.as_uri()], [])
    page.evaluate("fetch('http://127.0.0.1:9/').catch(() => 0)")
    assert "Content Security Policy" in said[0], "and could not ask either"
    page.close()


def test_without_scripts_everything_can_be_read(open_page: OpenPage, written: Written) -> None:
    page = open_page(java_script_enabled=False)
    report = written.report
    assert page.locator("h1").text_content() == report["message"].partition(". ")[0] + "."
    assert page.locator("pre").first.is_visible()
    assert page.locator("figure.map svg.track g path").first.is_visible()
    assert page.locator("figure.map:visible").count() == 12
    page.locator("details.more > summary").press("Enter")
    assert page.locator("figure.map:visible").count() == len(report["gap_map"]) == 100
    assert page.locator("table.sortable tbody tr").count() == len(report["partitions"]) == 136
    assert page.locator("table.sortable td", has_text=f"{MAX_OFFSET:,}").first.is_visible()
    assert page.locator("button:visible, output:visible").count() == 0, "nothing that would do nothing"


@pytest.mark.parametrize("which", ["page", "verify_page"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_its_ground(open_page: OpenPage, written: Written, theme: str, which: str) -> None:
    found = open_page(getattr(written, which), color_scheme=theme).evaluate(_CONTRASTS)
    assert len(found) > 500
    assert [each for each in found if each[0] < LEAST_CONTRAST] == []


@pytest.mark.parametrize("which", ["page", "verify_page"])
def test_nothing_sticks_out_of_a_narrow_window(open_page: OpenPage, written: Written, which: str) -> None:
    page = open_page(getattr(written, which))
    for width in (320, 360, 768):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_as_much_of_a_map_is_covered_as_is_missing(
    browser: Browser, open_page: OpenPage, written: Written, theme: str
) -> None:
    drawn = written.report["gap_map"][0]
    size = (drawn["last_offset"] - drawn["first_offset"] + 1) / len(drawn["bins"])
    shades = [shade(missing, round(size)) for missing in drawn["bins"]]
    bars = sum(HEIGHTS[index] for index in shades if index is not None) / (TRACK * len(shades))
    strip = sum(bool(inferred) for inferred in drawn["inferred_bins"]) / len(shades)
    page, reader = open_page(color_scheme=theme, device_scale_factor=3), browser.new_page()
    figure = page.locator("figure.map").first
    covered = {
        name: reader.evaluate(_SHARE_COVERED, base64.b64encode(figure.locator(name).screenshot()).decode())
        for name in ("svg.track", "svg.strip")
    }
    reader.close()
    assert covered["svg.track"] == pytest.approx(bars, abs=0.02)
    assert 0.4 * strip < covered["svg.strip"] <= strip + 0.02, "hatched: about half of it"
    scales = figure.locator("svg.strip").evaluate("(svg) => [svg.getScreenCTM().a, svg.getScreenCTM().d]")
    assert scales[0] == scales[1], "a hatch that is not stretched"
    assert bars > 0.05
    assert strip > 0.03


def test_on_paper_there_are_no_buttons_and_no_dark_ground(open_page: OpenPage) -> None:
    page = open_page(color_scheme="dark")
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 250, 248)"
    assert page.locator("button:visible").count() == page.locator("th button:visible").count()


def difference(one: list[float], other: list[float]) -> float:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(one)


def test_the_page_looks_as_its_description_shows_it(browser: Browser, open_page: OpenPage) -> None:
    reader = browser.new_page()  # reads pictures, so that no library is needed that does
    seen = {}
    for theme in ("light", "dark"):
        reference = REFERENCES / f"report-{theme}.png"
        picture = open_page(color_scheme=theme, device_scale_factor=0.75).screenshot(animations="disabled")
        if os.environ.get("GAPLESS_UPDATE_GOLDEN") == "1":
            reference.write_bytes(picture)
        expected = reader.evaluate(_GREY, base64.b64encode(reference.read_bytes()).decode())
        seen[theme] = reader.evaluate(_GREY, base64.b64encode(picture).decode())
        assert difference(seen[theme], expected) < MOST_DIFFERENCE, theme
    reader.close()
    moved = seen["light"][64 * 6 :] + seen["light"][: 64 * 6]
    assert difference(moved, seen["light"]) > MOST_DIFFERENCE, "six rows of 74 lower, it would be noticed"
    assert difference(seen["dark"], seen["light"]) > 20 * MOST_DIFFERENCE
