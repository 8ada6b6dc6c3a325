"""The page in other environments: keyboard layouts, contrast, zoom, no storage."""

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
    type_on,
    until,
    violations,
)
from support.serving import make_study_play, serve, serve_app

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.study.pages import make_study

pytestmark = NEEDS_BROWSER

CLOSED = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("Access is denied for this document.", "SecurityError"); },
});"""
FULL = """Storage.prototype.setItem = () => {
  throw new DOMException("exceeded the quota", "QuotaExceededError");
};"""
SEEN = """() => {
  const focused = document.activeElement, box = focused.getBoundingClientRect();
  const bar = document.querySelector("footer");
  const fixed = getComputedStyle(bar).position === "sticky" && !bar.contains(focused);
  return focused === document.body ? null : {
    what: focused.outerHTML.slice(0, 80),
    hidden: box.height < innerHeight / 3
      && (box.top < -1 || box.bottom > (fixed ? bar.getBoundingClientRect().top : innerHeight) + 1),
  };
}"""


def prompt(page):
    return page.locator(".choice p").inner_text()


def moves_of_first_game(play):
    """Number of moves of the first game."""
    return play.game(min(play._games)).turn


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_focused_button_acts_despite_key_choice(make_play, open_page, key):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)

        def choose_then_press(selector, chosen=("p", "1")):
            press(page, ["Escape", *chosen])
            page.locator(selector).first.focus()
            press(page, [key])

        press(page, ["h", "1"])
        choose_then_press("[data-key=back]")
        assert prompt(page) == "Choose a card or a hint"
        choose_then_press("[data-key=discard]")
        assert prompt(page).startswith("Discard slot 1?")
        choose_then_press("[data-key=card-2]")
        assert prompt(page) == "Play slot 2?"
        choose_then_press("button.hint.rank[aria-disabled=false]")
        assert prompt(page).startswith("Hint Bob")
        choose_then_press("[role=log]")
        choose_then_press("summary")
        assert page.locator("details.more").get_attribute("open") is not None
        choose_then_press("[data-setting=theme]")
        press(page, ["Escape"])
        choose_then_press("[data-setting=patterns]")
        assert page.locator("[data-setting=patterns]").is_checked() == (key == "Space")
        choose_then_press("a[download]")
        assert moves_of_first_game(play) == 0
        with page.expect_navigation():
            choose_then_press("#new button")
        until(page, "/Turn [12]:/.test(document.title)")
        assert moves_of_first_game(play) == 0 and len(play._games) == 2
        assert my_turn(page)
        page.locator("summary").click()
        turn = play.game(max(play._games)).turn
        choose_then_press("#leave")
        press(page, ["p", "2", "Escape"])  # ignored in the dialog
        assert prompt(page) == "Play slot 1?" and play.game(max(play._games)).status == "active"
        choose_then_press("#leave")
        page.locator("#sure-yes").focus()
        press(page, [key])
        page.wait_for_selector(".replay")
        game = play.game(max(play._games))
        assert game.end_reason == "left" and game.turn == turn


def test_enter_confirms_and_back_cancels_key_choice(make_play, open_page):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        press(page, ["p", "1"])
        assert page.locator("button.go").evaluate("go => go === document.activeElement")
        press(page, ["Tab", "Enter"])
        assert prompt(page) == "Choose a card or a hint" and moves_of_first_game(play) == 0
        page.locator("[data-key=card-3]").click()
        press(page, ["p"])
        assert prompt(page) == "Play slot 3?"
        press(page, ["Enter"])
        until(page, "document.querySelectorAll('#log li').length > 0")
        assert page.locator("#log li").first.inner_text().startswith("You play slot 3")


def test_focused_button_acts_in_study(tmp_path, open_page):
    play = make_study_play(tmp_path, rules=Rules())
    with serve_app(make_study(play, 0)) as address:
        page = open_page(address, wait=".choices")
        page.locator("button.go").click()
        page.locator(".questions button.go").click()
        page.wait_for_selector(".board")
        assert my_turn(page)
        made = play.folder.participants()[0].games[0].game.turn
        page.locator("summary").click()
        press(page, ["p", "1"])
        page.get_by_role("button", name="Stop the study here").focus()
        press(page, ["Enter"])
        page.wait_for_url("**/stop*")
        (person,) = play.folder.participants()
        assert not person.stopped and person.games[0].game.status == "active"
        page.get_by_role("button", name="Yes, stop for good").focus()
        press(page, ["Enter"])
        page.wait_for_url("**/next")
        (person,) = play.folder.participants()
        assert person.stopped and person.games[0].game.turn == made


@pytest.mark.parametrize("by_button", [False, True], ids=["n", "Enter"])
def test_held_key_deals_one_game(make_play, open_page, by_button):
    play = make_play(Rules(), watch=True)
    with serve(play) as address:
        page, sent = open_page(address), []

        def stay(route):
            sent.append(route)
            route.fulfill(status=204)

        page.route("**/new", stay)
        page.locator("summary").click()
        if by_button:
            page.locator("#new button").focus()
        for _ in range(4):
            page.keyboard.down("Enter" if by_button else "n")
            page.wait_for_timeout(40)
        for _ in range(500):
            if sent:
                break
            page.wait_for_timeout(20)
        assert len(sent) == 1


def test_slider_and_log_keep_their_keys(make_play, open_page):
    play = make_play(Rules(), watch=True)
    with serve(play) as address:
        page = open_page(address, (640, 400), reduced_motion="reduce")
        for turn in range(1, 16):
            press(page, ["ArrowRight"])
            until(page, f"document.querySelectorAll('#log li').length == {turn}")
        page.locator("[data-key=slider]").focus()
        press(page, ["ArrowLeft"])
        assert "Move 14 of 15" in page.locator("#actions").inner_text()
        press(page, ["End", "ArrowRight"])  # at its end a slider stays; the page would make a move
        page.wait_for_timeout(200)
        assert "Move 15 of 15" in page.locator("#actions").inner_text()
        page.locator("[role=log]").focus()
        press(page, ["End"])
        until(page, "document.querySelector('[role=log]').scrollTop > 0")
        press(page, ["Space"])
        page.wait_for_timeout(200)
        assert "Move 15 of 15" in page.locator("#actions").inner_text()
        page.locator("[data-key=slider]").focus()
        press(page, ["a"])  # not a slider's key
        assert page.locator("[data-key=auto]").inner_text() == "Stop"


def test_choice_keeps_scroll_position_and_help_scrolls(make_play, open_page):
    with serve(make_play(Rules())) as address:
        page = open_page(address, (640, 400))
        assert my_turn(page)
        hint_button = page.locator("button.hint.rank").first
        hint_button.evaluate(
            "(button) => scrollBy(0, button.getBoundingClientRect().bottom + 2"
            " - document.querySelector('footer').getBoundingClientRect().top)"
        )
        before, box = page.evaluate("scrollY"), hint_button.bounding_box()
        page.mouse.click(box["x"] + 9, box["y"] + 9)
        assert prompt(page).startswith("Hint Bob") and page.evaluate("scrollY") == before
        summary = "document.querySelector('summary').getBoundingClientRect()"
        assert page.evaluate(f"{summary}.top > innerHeight")
        press(page, ["?"])
        until(page, f"{summary}.top < innerHeight / 2")


def test_moves_work_on_other_keyboards(make_play, open_page):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        for strokes, choice in [
            ([("p", "KeyP"), ("&", "Digit1")], "Play slot 1?"),  # French
            ([("p", "KeyP"), ("(", "Digit5")], "Play slot 5?"),
            ([("з", "KeyP"), ("2", "Digit2")], "Play slot 2?"),  # Russian
            ([("פ", "KeyP"), ("3", "Numpad3")], "Play slot 3?"),  # Hebrew, on the keypad
            ([("p", "KeyR"), ("4", "Digit4")], "Play slot 4?"),  # Dvorak
        ]:
            type_on(page, *strokes)
            assert prompt(page) == choice
            press(page, ["Escape"])
        hint_button = page.locator("button.hint.rank[aria-disabled=false]").first
        value = hint_button.get_attribute("data-key")[-1]
        type_on(page, ("h", "KeyH"), ("&é\"'("[int(value) - 1], f"Digit{value}"))
        press(page, ["Enter"])
        until(page, "document.querySelectorAll('#log li').length > 0")
        assert page.locator("#log li").first.inner_text().startswith(f"You hint Bob {value}")


def test_setting_disables_letter_and_digit_keys(make_play, open_page):
    """For speech control, and against accidental key presses: moves by buttons only."""
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        page.locator("summary").click()
        page.locator("[data-setting=keys]").click()
        press(page, ["p", "1", "?"])
        assert prompt(page) == "Choose a card or a hint"
        page.locator("[data-setting=keys]").click()
        press(page, ["p", "1"])  # although the box has the focus
        assert prompt(page) == "Play slot 1?"


@pytest.mark.parametrize("script", [CLOSED, FULL], ids=["cookies off", "full"])
def test_settings_work_without_storage(make_play, open_page, script):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address, script=script)
        assert my_turn(page)
        page.locator("summary").click()
        page.locator("[data-setting=newestLeft]").check()
        assert page.locator(".cards .slot").first.inner_text() == "5"
        assert "keeps no settings" in page.locator("#kept").inner_text()
        page.locator("[data-setting=theme]").select_option("dark")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        move_by_keys(page, 0)


def test_page_without_scripts_names_requirement(make_play, open_page):
    with serve(make_play(Rules())) as address:
        page = open_page(address, wait="noscript", java_script_enabled=False)
        assert "needs JavaScript" in page.locator("main").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colors_do_not_rely_on_backgrounds(make_play, open_page, scheme):
    with serve(make_play(Rules())) as address:
        page = open_page(address, forced_colors="active", color_scheme=scheme)
        assert my_turn(page)
        card = page.locator("[data-key=card-2] .card")
        plain = card.screenshot()
        press(page, ["2"])
        assert card.screenshot() != plain
        theirs, mine = (hand.bounding_box() for hand in page.locator(".hand").all())
        edges = [
            page.screenshot(clip={"x": box["x"], "y": box["y"] + 9, "width": 5, "height": 20})
            for box in (theirs, mine)
        ]
        assert edges[0] != edges[1]  # current player
        play = page.locator("[data-key=play]")
        plain = play.screenshot()
        press(page, ["p"])
        page.locator("[data-key=back]").focus()
        assert play.screenshot() != plain
        # The browser applies its colours while painting; axe reads the text colour without
        # background.
        found = [line for line in violations(page) if not line.startswith("color-contrast")]
        assert found == []


def test_forced_colors_show_bar_lengths(make_play, open_page):
    with serve(make_play(Rules(), watch=True)) as address:
        page = open_page(address, forced_colors="active")
        bars = page.locator(".chances .bar")
        assert bars.first.screenshot() != bars.last.screenshot()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chosen_card_is_readable_with_more_contrast(make_play, open_page, scheme):
    with serve(make_play(Rules())) as address:
        page = open_page(address, contrast="more", color_scheme=scheme)
        assert my_turn(page)
        press(page, ["2"])
        back, ink, line, page_ink = page.locator("[data-key=card-2] .card").evaluate(
            "(card) => [getComputedStyle(card).backgroundColor, getComputedStyle(card).color,"
            " getComputedStyle(document.querySelector('[data-key=back]')).borderTopColor,"
            " getComputedStyle(document.body).color]"
        )
        assert back != ink and line == page_ink
        assert violations(page) == []


def test_focus_is_visible_on_chosen_card(make_play, open_page):
    with serve(make_play(Rules())) as address:
        page = open_page(address)
        assert my_turn(page)
        press(page, ["p", "1", "Tab"])  # Back
        box = page.locator("[data-key=play]").bounding_box()
        clip = {"x": box["x"] - 8, "y": box["y"], "width": 8, "height": box["height"]}
        elsewhere = page.screenshot(clip=clip)
        page.locator("[data-key=card-5]").focus()
        press(page, ["Tab"])
        assert page.evaluate("document.activeElement.dataset.key") == "play"
        assert page.screenshot(clip=clip) != elsewhere


@pytest.mark.parametrize("size", [(640, 400), (320, 256)], ids=["200%", "400%"])
@pytest.mark.parametrize("over", [False, True], ids=["play", "replay"])
def test_focused_element_is_visible_at_any_zoom(make_play, open_page, size, over):
    """1280 x 800 at 200%, and 1280 x 1024 at 400%."""
    with serve(make_play(Rules())) as address:
        page = open_page(address, size)
        for number in range(4):
            assert my_turn(page)
            move_by_keys(page, number)
        assert my_turn(page)
        if over:
            leave(page)
            page.wait_for_selector(".replay")
        page.reload()  # no focus
        page.wait_for_selector(".board")
        page.evaluate("document.querySelector('details.more').open = true")
        visited = []
        while len(visited) < 60:
            press(page, ["Tab"])
            seen = page.evaluate(SEEN)
            if seen is None:
                break
            visited.append(seen)
        assert len(visited) > 8 and [seen["what"] for seen in visited if seen["hidden"]] == []
        assert not scrolls_sideways(page)


@pytest.mark.parametrize("watch", [False, True], ids=["play", "watch"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_text_size_follows_browser(make_play, browser, size, watch):
    large = browser.browser_type.launch(
        executable_path=CHROMIUM, args=[*ARGUMENTS, "--blink-settings=defaultFontSize=32"]
    )
    cut = "[...document.querySelectorAll('.card, .pile, button')]"
    cut += ".filter((part) => part.scrollWidth > part.clientWidth + 1).length"
    with serve(make_play(Rules(), watch=watch)) as address:
        page = large.new_page(viewport={"width": size[0], "height": size[1]})
        page.goto(address)
        page.wait_for_selector(".board")
        if not watch:
            assert my_turn(page)
            press(page, ["p", "1"])
        page.evaluate("document.querySelector('details.more').open = true")
        assert page.evaluate("getComputedStyle(document.body).fontSize") == "32px"
        assert not scrolls_sideways(page)
        assert page.evaluate(cut) == 0
        large.close()
