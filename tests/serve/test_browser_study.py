"""A study in a real Chromium: by keyboard alone, at both sizes, and what axe-core says of it."""

import pytest
from support.browser import (
    ARGUMENTS,
    CHROMIUM,
    NEEDS_BROWSER,
    SIZES,
    move_by_keys,
    my_turn,
    press,
    scrolls_sideways,
    violations,
)
from support.serving import make_study_play, serve_app

from hanabi_rl.env.game import Rules
from hanabi_rl.serve.study_pages import make_study

pytestmark = NEEDS_BROWSER


def press_button(page, selector):
    """By keyboard: the focus goes there, Enter presses it."""
    page.locator(selector).focus()
    press(page, ["Enter"])
    page.wait_for_load_state()


@pytest.mark.parametrize(
    ("size", "scheme"), [(SIZES[0], "light"), (SIZES[1], "dark")], ids=["wide", "phone"]
)
def test_a_study_by_keyboard_alone_has_no_violation(tmp_path, size, scheme):
    from playwright.sync_api import sync_playwright

    play = make_study_play(tmp_path, rules=Rules())

    def fine(page):
        assert violations(page) == [] and not scrolls_sideways(page)

    with serve_app(make_study(play, 0)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        viewport = {"width": size[0], "height": size[1]}
        page = browser.new_context(viewport=viewport, color_scheme=scheme).new_page()
        page.goto(address)
        fine(page)
        press_button(page, "button.go")
        page.wait_for_selector("fieldset")
        fine(page)
        page.locator("[name=q_played]").first.focus()
        press(page, ["ArrowDown"])
        press_button(page, ".questions button.go")
        for game in (1, 2):
            page.wait_for_selector(".board")
            number = 0
            while my_turn(page):
                move_by_keys(page, number)
                number += 1
            press(page, ["n"])
            page.wait_for_selector(".questions")
            assert page.locator("h1").inner_text() == f"About game {game}"
            if game == 1:
                fine(page)
            page.locator("[name=q_meant]").first.focus()
            press(page, ["ArrowRight"])
            press_button(page, ".questions button.go")
        page.wait_for_selector(".rank")
        fine(page)
        press_button(page, ".questions button.go")
        page.wait_for_selector(".partners")
        fine(page)
        for path in ("", "different", "code", "withdraw"):
            page.goto(f"{address}{path}")
            fine(page)
        (cookie,) = page.context.cookies()
        page.locator("#code").fill(cookie["value"])
        (person,) = play.folder.everyone()
        assert person.answers["before"] == {"played": "n"}
        assert person.answers["game 1"] == {"meant": 2}
        assert all(played.game.end_reason == "finished" for played in person.games)
        press_button(page, ".questions button.go")
        page.wait_for_selector("[role=status]")
        assert play.folder.everyone() == []
        browser.close()
