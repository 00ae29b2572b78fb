"""Whatever the page offers can be done with the keyboard alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, expect

from gapless_api.offsets.ids import MAX_OFFSET
from kit.story.big_finding import HIGHEST, big_scan

if TYPE_CHECKING:
    from conftest import OpenPage, Written
    from gapless_api.bundle.form import PartitionGaps

pytestmark = pytest.mark.integration

_WATCH_FOCUS = """() => {
  const all = [...document.querySelectorAll('a[href], button, summary, input, select, [tabindex="0"]')];
  window.reachable = all.filter((element) => element.checkVisibility());
  window.walked = [];
  document.addEventListener("focusin", ({ target }) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(target);
    walked.push([reachable.indexOf(target), outlineStyle === "solid" && outlineWidth === "2px"]);
  });
  return reachable.map((element) => element.id || element.dataset.do || element.classList[0] || element.tagName);
}"""


def test_tab_goes_through_everything_in_reading_order_and_shows_where_it_is(
    open_page: OpenPage, written: Written
) -> None:
    page = open_page()
    names = page.evaluate(_WATCH_FOCUS)
    for _ in names:
        page.keyboard.press("Tab")
    walked = page.evaluate("walked")
    assert [(names[index], visible) for index, visible in walked] == [(name, True) for name in names]
    assert [index for index, _ in walked] == list(range(len(names)))
    assert names[0] == "theme"
    assert (names.count("track"), names.count("in"), names.count("all")) == (12, 12, 12)
    assert names.count("copy") == page.locator(".steps li").count() == 4
    assert names.count("scroll") == 2
    assert names.count("SUMMARY") == 1, "more maps"
    assert len(written.report["gap_map"]) == 100


def numbers(text: str | None) -> list[int]:
    return [int(word.replace(",", "")) for word in (text or "").split() if word[0].isdigit()]


_WATCH_MAP = """([index, button]) => {
  const figure = document.querySelector(`figure[data-map="${index}"]`), track = figure.querySelector("svg.track");
  const folded = figure.closest("details");
  if (folded) folded.open = true;
  const [left, right] = figure.querySelectorAll(".ends span"), said = figure.querySelector("output");
  const show = () => [left.textContent, right.textContent, said.textContent, track.querySelectorAll("path").length];
  window.states = [show()];
  document.onkeyup = () => states.push(show());
  (button ? figure.querySelector(`[data-do="${button}"]`) : track).focus();
}"""


def states_of(page: Page, index: int, keys: list[str], button: str = "") -> list[tuple[int, int, list[int], int]]:
    """The ends of what a map shows at first and after each key, what it says is missing there, and how many paths."""
    page.evaluate(_WATCH_MAP, [index, button])
    for key in keys:
        page.keyboard.press(key)
    states = page.evaluate("states")
    assert len(states) == len(keys) + 1
    return [(*numbers(left), *numbers(right), numbers(said), paths) for left, right, said, paths in states]


def expected(found: PartitionGaps, inferred: PartitionGaps | None, first: int, last: int) -> list[int]:
    of_it = inferred.ranges.clip(first, last).count if inferred is not None else 0
    return [found.ranges.clip(first, last).count, *([of_it] if of_it else [])]


_AROUND = ["ArrowRight", *["+", "ArrowRight"] * 6, "-", "ArrowLeft", *["+"] * 18, "-", "0", *["=", "ArrowRight"] * 3]


@pytest.mark.parametrize("place", [HIGHEST, ("billing_events", 18), ("transfer.orders", 30)])
def test_keys_zoom_and_move_a_map_and_it_counts_exactly_what_is_there(
    open_page: OpenPage, written: Written, place: tuple[str, int]
) -> None:
    conclusion = big_scan()
    found = {(entry.topic, entry.partition): entry for entry in conclusion.results}[place]
    inferred = {(entry.topic, entry.partition): entry for entry in conclusion.inferred}.get(place)
    index = [(drawn["topic"], drawn["partition"]) for drawn in written.report["gap_map"]].index(place)
    whole, *states = states_of(open_page(), index, _AROUND)
    assert whole[:2] == (found.window_min, found.window_max)
    for first, last, counted, paths in states:
        assert whole[0] <= first <= last <= whole[1]
        assert counted == expected(found, inferred, first, last)
        assert bool(paths) == bool(counted[0])
    widths = [last - first + 1 for first, last, _, _ in states]
    assert widths[0] == widths[-7] == whole[1] - whole[0] + 1
    assert widths[1] < widths[0]
    assert any(len(counted) == 2 for _, _, counted, _ in states) == (inferred is not None)
    if place == HIGHEST:
        assert whole[1] == MAX_OFFSET
        assert min(widths) == 10, "zooming ends at single offsets"


def test_the_buttons_of_a_map_do_what_its_keys_do(open_page: OpenPage) -> None:
    page = open_page()
    by_keys = states_of(page, 0, ["+", "+"])
    assert states_of(page, 0, ["0"])[-1][:2] == by_keys[0][:2]
    assert states_of(page, 0, ["Enter", "Enter"], button="in")[1:] == by_keys[1:]
    moved = states_of(page, 0, ["Enter"], button="right")[-1]
    assert moved[0] > by_keys[-1][0]
    assert states_of(page, 0, ["Enter"], button="left")[-1] == by_keys[-1]
    assert states_of(page, 0, ["Enter"], button="out")[-1] == by_keys[-2]
    assert states_of(page, 0, ["Enter"], button="all")[-1][:2] == by_keys[0][:2]


def test_a_map_zooms_with_the_wheel_only_when_it_has_the_focus(open_page: OpenPage) -> None:
    page = open_page()
    figure = page.locator("figure.map").first
    track = figure.locator("svg.track")
    track.scroll_into_view_if_needed()
    track.hover()
    page.evaluate(
        "() => { window.scrolled = new Promise((done) => addEventListener('scroll', () => done(1), { once: true })); }"
    )
    page.mouse.wheel(0, 100)
    page.evaluate("scrolled")
    assert figure.get_attribute("data-zoomed") != "true"
    track.click()
    page.mouse.wheel(0, -100)
    expect(figure).to_have_attribute("data-zoomed", "true", timeout=120_000)


def test_a_heading_sorts_by_number_down_and_then_up(open_page: OpenPage) -> None:
    page = open_page()
    table = page.locator("table.sortable")
    heads = table.locator("th").all_text_contents()
    for head in ("last missing", "topic"):
        column = heads.index(head) + 1
        button = table.locator(f"th:nth-child({column}) button")
        for direction, backwards in (("descending", True), ("ascending", False)):
            button.press("Enter")
            assert table.locator("th[aria-sort]").get_attribute("aria-sort") == direction
            cells = table.locator(f"tbody td:nth-child({column})").all_text_contents()
            keys = cells if head == "topic" else [numbers(cell)[0] if cell != "-" else -1 for cell in cells]
            assert keys == sorted(keys, reverse=backwards)
            assert len(set(keys)) > 2
            if head != "topic":
                assert MAX_OFFSET in keys


@pytest.mark.parametrize("preferred", ["light", "dark"])
def test_the_theme_is_what_the_system_prefers_until_somebody_switches(open_page: OpenPage, preferred: str) -> None:
    page = open_page(color_scheme=preferred)
    ground = "getComputedStyle(document.body).backgroundColor"
    first = page.evaluate(ground)
    button = page.locator("#theme")
    assert button.text_content() == ("Light" if preferred == "dark" else "Dark")
    button.press("Enter")
    second = page.evaluate(ground)
    button.press("Space")
    assert (second != first, page.evaluate(ground)) == (True, first)


def test_a_command_is_copied_or_at_least_selected(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("button.copy").nth(1).press("Enter")
    assert page.evaluate("getSelection().toString().trim()") == "gapless bundle text gaps.bundle.json"
    assert page.locator("button.copy").nth(1).text_content() in {"Copied", "Selected"}
