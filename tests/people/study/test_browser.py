"""A study in Chromium: keyboard only, at both sizes, checked by axe-core."""

import pytest
from support.browser import (
    ARGUMENTS,
    CHROMIUM,
    NEEDS_BROWSER,
    SIZES,
    leave,
    move_by_keys,
    my_turn,
    press,
    scrolls_sideways,
    until,
    violations,
)
from support.serving import KITCHEN, Simple, make_study_play, serve_app

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.overcooked.transitions import STAY, UP
from hanabi_rl.people.serve.folder import GameFolder
from hanabi_rl.people.serve.local import LocalPlay
from hanabi_rl.people.serve.web import make_app
from hanabi_rl.people.study.design import study_of
from hanabi_rl.people.study.folder import StudyFolder
from hanabi_rl.people.study.kitchens import KitchenStudy, load_kitchen_agents
from hanabi_rl.people.study.pages import make_study

pytestmark = NEEDS_BROWSER


def press_button(page, selector):
    """Focus the button and press Enter."""
    page.locator(selector).focus()
    press(page, ["Enter"])
    page.wait_for_load_state()


@pytest.mark.parametrize(
    ("size", "scheme"), [(SIZES[0], "light"), (SIZES[1], "dark")], ids=["wide", "phone"]
)
def test_keyboard_study_has_no_accessibility_violations(tmp_path, size, scheme):
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
        (person,) = play.folder.participants()
        assert person.answers["before"] == {"played": "n"}
        assert person.answers["game 1"] == {"meant": 2}
        assert all(played.game.end_reason == "finished" for played in person.games)
        press_button(page, ".questions button.go")
        page.wait_for_selector("[role=status]")
        assert play.folder.participants() == []
        browser.close()


def test_final_actions_are_confirmed_and_disconnects_shown(tmp_path, open_page):
    play = make_study_play(tmp_path, rules=Rules())
    with serve_app(make_study(play, 0)) as address:
        page = open_page(address, wait=".choices")
        page.locator("button.go").click()
        page.locator(".questions button.go").click()
        page.wait_for_selector(".board")
        assert my_turn(page)
        page.locator("summary").click()
        page.locator("[data-setting=theme]").select_option("dark")
        page.locator("#leave").click()
        assert page.locator("#sure").is_visible() and violations(page) == []
        press(page, ["Escape"])
        assert not page.locator("#sure").is_visible()
        page.locator("#leave").click()
        page.get_by_role("button", name="No, go back").click()
        (person,) = play.folder.participants()
        assert person.games[0].game.status == "active"
        other = page.context.new_page()  # another tab: another person begins
        other.goto(address)
        other.get_by_role("button", name="I am a different person").click()
        other.get_by_role("button", name="Yes, I am a different person").click()
        other.wait_for_selector(".choices")
        until(page, "document.getElementById('network').textContent.includes('has ended')")
        other.locator("button.go").click()
        other.locator(".questions button.go").click()
        other.wait_for_selector(".board")
        assert other.evaluate("document.documentElement.dataset.theme") == "auto"
        leave(other)
        other.wait_for_selector(".replay")
        games = [played.game for each in play.folder.participants() for played in each.games]
        assert sorted(game.status for game in games) == ["active", "done"]


def test_partner_memory_is_deleted_only_when_confirmed(tmp_path, open_page):
    play = LocalPlay(Rules(), ["simple"], Simple(), GameFolder(tmp_path), 0, ["identity"], True)
    with serve_app(make_app(play, 0)) as address:
        page = open_page(address)
        page.locator("summary").click()
        reset = page.get_by_role("button", name="Forget me and start over")
        reset.click()
        press(page, ["Escape"])
        assert len(play._games) == 1
        reset.click()
        with page.expect_navigation():
            page.locator("#sure-yes").click()
        page.wait_for_selector(".board")
        assert len(play._games) == 2


@pytest.mark.parametrize("size", SIZES, ids=["wide", "phone"])
def test_kitchen_study_has_no_accessibility_violations(tmp_path, open_page, size):
    agents = [{"name": "bot:errand", "warm_up": 1, "games": 2}]
    study = study_of(KITCHEN | {"agents": agents, "steps": 30, "steps_per_s": 10, "seat": "0"})
    play = KitchenStudy(StudyFolder(tmp_path, study), load_kitchen_agents(study))
    is_phone = size == SIZES[1]

    def fine(page):
        assert violations(page) == [] and not scrolls_sideways(page)

    with serve_app(make_study(play)) as address:
        page = open_page(address, size, "button.go", reduced_motion="reduce", has_touch=is_phone)
        page.locator("button.go").click()
        page.wait_for_selector(".recipe")
        fine(page)
        press(page, ["Enter"])  # the button has the focus
        for game in range(2):
            page.wait_for_selector("#start:enabled", timeout=120_000)
            assert page.locator("text=practice game").count() == (game == 0)
            fine(page)
            if is_phone:
                page.locator("#start").tap()
                page.locator(".pad [data-action='0']").tap()
            else:
                press(page, ["Enter", "ArrowUp", "Escape"])  # Escape stops no game of a study
            until(page, "times.first > 0")
            page.wait_for_selector("#next:not([hidden])")
            fine(page)
            press(page, ["Enter"])
        page.wait_for_selector("fieldset")
    (person,) = play.folder.participants()
    for played in person.games:
        assert played.game.end_reason == "finished" and played.game.dropped_presses == 0
        assert [own for own, _ in played.game.moves if own != STAY] == [UP]
