"""A study in a real Chromium: a participant's whole path by keyboard, and what axe-core says of
every page on it."""

import os
import re
from pathlib import Path

import pytest
from support.browser import (
    NEEDS_CHROMIUM,
    SIZES,
    move_by_keys,
    my_turn,
    press,
    scrolls_sideways,
    violations,
)
from support.serving import make_study_play, serve_app

from hanabi_rl.env.game import Rules
from hanabi_rl.serve.study_export import export_study
from hanabi_rl.serve.study_pages import make_study

pytestmark = NEEDS_CHROMIUM


def check(page, name):
    """Nothing is wrong with the page as it is now. With $SCREENSHOTS a picture of it is kept."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")
    assert violations(page) == [], name
    assert not scrolls_sideways(page), name


def tab_to(page, text):
    """Walks by Tab to the control of these words."""
    for _ in range(120):
        press(page, ["Tab"])
        if page.evaluate("(document.activeElement.textContent || '').trim()") == text:
            return
    raise AssertionError(f"no control says {text!r}")


def enter(page, text):
    """Goes to the control by Tab and presses Enter."""
    tab_to(page, text)
    with page.expect_navigation():
        press(page, ["Enter"])


def play_by_keys(page):
    page.wait_for_selector(".board")
    number = 0
    while my_turn(page):
        move_by_keys(page, number)
        number += 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_participants_whole_path_by_keyboard(open_page, tmp_path, size, scheme):
    play = make_study_play(tmp_path / "state", Rules())
    mark = f"{scheme}-{size[0]}"
    with serve_app(make_study(play, pause=0)) as address:
        page = open_page(address, size, scheme, wait="h1")
        check(page, f"consent-{mark}")
        enter(page, "I agree, start")
        check(page, f"before-{mark}")
        press(page, ["Tab", "ArrowRight"])  # into the group, on to its first
        enter(page, "Go on")
        for number in (1, 2):
            play_by_keys(page)
            if number == 1:
                page.evaluate("document.querySelector('details.more').open = true")
                check(page, f"over-{mark}")
            with page.expect_navigation():
                press(page, ["n"])
            assert page.locator("h1").inner_text() == f"About game {number}"
            check(page, f"after-{mark}")
            press(page, ["Tab", "ArrowRight"])
            enter(page, "Go on")
        assert page.locator("h1").inner_text() == "Before you go"
        check(page, f"end-{mark}")
        press(page, ["Tab", "2", "Tab", "1"])
        enter(page, "Go on")
        assert page.locator("h1").inner_text() == "Thank you!"
        check(page, f"done-{mark}")
        assert export_study(play.folder, tmp_path / "games.safetensors") == 2
        (person,) = play.folder.everyone()
        assert sorted(person.answers["end"]["ranking"].values()) == [1, 2]
        enter(page, "have everything of yours deleted")
        check(page, f"withdraw-{mark}")
        code = page.locator("#code").input_value()
        assert re.fullmatch(r"\d{6}(-\w{4}){3}", code)
        enter(page, "Delete everything of mine")
        check(page, f"gone-{mark}")
        assert play.folder.everyone() == []
