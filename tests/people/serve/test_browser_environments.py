"""The page as other people have it: whose a key is, other keyboards, contrast, zoom, no storage."""

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


def asked(page):
    return page.locator(".choice p").inner_text()


def told_first(play):
    """How many moves the first game has."""
    return play.game(min(play._games)).turn


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_button_with_the_focus_acts_whatever_was_chosen_by_keys(make_play, open_page, key):
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
        assert asked(page) == "Choose a card, or tell something"
        choose_then_press("[data-key=discard]")
        assert asked(page).startswith("Discard card 1?")
        choose_then_press("[data-key=card-2]")
        assert asked(page) == "Play card 2?"
        choose_then_press("button.hint.rank[aria-disabled=false]")
        assert asked(page).startswith("Tell Bob")
        choose_then_press("[role=log]")
        choose_then_press("summary")
        assert page.locator("details.more").get_attribute("open") is not None
        choose_then_press("[data-setting=theme]")
        press(page, ["Escape"])
        choose_then_press("[data-setting=patterns]")
        assert page.locator("[data-setting=patterns]").is_checked() == (key == "Space")
        choose_then_press("a[download]")
        assert told_first(play) == 0
        with page.expect_navigation():
            choose_then_press("#new button")
        until(page, "/Turn [12]:/.test(document.title)")
        assert told_first(play) == 0 and len(play._games) == 2
        assert my_turn(page)
        page.locator("summary").click()
        turn = play.game(max(play._games)).turn
        choose_then_press("#leave")
        press(page, ["p", "2", "Escape"])  # keys of moves are not heard, and nothing is left
        assert asked(page) == "Play card 1?" and play.game(max(play._games)).status == "active"
        choose_then_press("#leave")
        page.locator("#sure-yes").focus()
        press(page, [key])
        page.wait_for_selector(".replay")
        game = play.game(max(play._games))
        assert game.end_reason == "left" and game.turn == turn


def test_what_keys_have_chosen_is_confirmed_by_enter_and_by_tab_to_back_taken_back(
    make_play, open_page
):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        press(page, ["p", "1"])
        assert page.locator("button.go").evaluate("go => go === document.activeElement")
        press(page, ["Tab", "Enter"])
        assert asked(page) == "Choose a card, or tell something" and told_first(play) == 0
        page.locator("[data-key=card-3]").click()
        press(page, ["p"])
        assert asked(page) == "Play card 3?"
        press(page, ["Enter"])
        until(page, "document.querySelectorAll('#log li').length > 0")
        assert page.locator("#log li").first.inner_text().startswith("You play card 3")


def test_in_a_study_too_the_focused_button_acts(tmp_path, open_page):
    play = make_study_play(tmp_path, rules=Rules())
    with serve_app(make_study(play, 0)) as address:
        page = open_page(address, wait=".choices")
        page.locator("button.go").click()
        page.locator(".questions button.go").click()
        page.wait_for_selector(".board")
        assert my_turn(page)
        made = play.folder.everyone()[0].games[0].game.turn
        page.locator("summary").click()
        press(page, ["p", "1"])
        page.get_by_role("button", name="Stop the study here").focus()
        press(page, ["Enter"])
        page.wait_for_url("**/stop*")
        (person,) = play.folder.everyone()
        assert not person.stopped and person.games[0].game.status == "active"
        page.get_by_role("button", name="Yes, stop for good").focus()
        press(page, ["Enter"])
        page.wait_for_url("**/next")
        (person,) = play.folder.everyone()
        assert person.stopped and person.games[0].game.turn == made


@pytest.mark.parametrize("by_button", [False, True], ids=["n", "Enter"])
def test_a_key_held_down_deals_one_game(make_play, open_page, by_button):
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


def test_what_slides_and_scrolls_keeps_its_keys(make_play, open_page):
    play = make_play(Rules(), watch=True)
    with serve(play) as address:
        page = open_page(address, (640, 400))
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
        press(page, ["a"])  # no key of a slider's
        assert page.locator("[data-key=auto]").get_attribute("aria-pressed") == "true"


def test_a_choice_does_not_move_the_page_and_the_list_of_keys_does(make_play, open_page):
    with serve(make_play(Rules())) as address:
        page = open_page(address, (640, 400))
        assert my_turn(page)
        told = page.locator("button.hint.rank").first
        told.evaluate(
            "(button) => scrollBy(0, button.getBoundingClientRect().bottom + 2"
            " - document.querySelector('footer').getBoundingClientRect().top)"
        )
        before, box = page.evaluate("scrollY"), told.bounding_box()
        page.mouse.click(box["x"] + 9, box["y"] + 9)
        assert asked(page).startswith("Tell Bob") and page.evaluate("scrollY") == before
        summary = "document.querySelector('summary').getBoundingClientRect()"
        assert page.evaluate(f"{summary}.top > innerHeight")
        press(page, ["?"])
        until(page, f"{summary}.top < innerHeight / 2")


def test_moves_are_typed_on_other_keyboards(make_play, open_page):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        for strokes, choice in [
            ([("p", "KeyP"), ("&", "Digit1")], "Play card 1?"),  # French
            ([("p", "KeyP"), ("(", "Digit5")], "Play card 5?"),
            ([("з", "KeyP"), ("2", "Digit2")], "Play card 2?"),  # Russian
            ([("פ", "KeyP"), ("3", "Numpad3")], "Play card 3?"),  # Hebrew, on the keypad
            ([("p", "KeyR"), ("4", "Digit4")], "Play card 4?"),  # Dvorak
        ]:
            type_on(page, *strokes)
            assert asked(page) == choice
            press(page, ["Escape"])
        told = page.locator("button.hint.rank[aria-disabled=false]").first
        value = told.get_attribute("data-key")[-1]
        type_on(page, ("h", "KeyH"), ("&é\"'("[int(value) - 1], f"Digit{value}"))
        press(page, ["Enter"])
        until(page, "document.querySelectorAll('#log li').length > 0")
        assert page.locator("#log li").first.inner_text().startswith(f"You tell Bob {value}")


def test_a_setting_leaves_letters_and_digits_to_others(make_play, open_page):
    """Who speaks to the browser, or rests a hand on the keys, moves by buttons alone."""
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        page.locator("summary").click()
        page.locator("[data-setting=keys]").click()
        press(page, ["p", "1", "?"])
        assert asked(page) == "Choose a card, or tell something"
        page.locator("[data-setting=keys]").click()
        press(page, ["p", "1"])  # though the box still has the focus
        assert asked(page) == "Play card 1?"


@pytest.mark.parametrize("script", [CLOSED, FULL], ids=["cookies off", "full"])
def test_settings_hold_where_the_browser_keeps_none(make_play, open_page, script):
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


def test_without_scripts_the_page_says_what_it_needs(make_play, open_page):
    with serve(make_play(Rules())) as address:
        page = open_page(address, wait="noscript", java_script_enabled=False)
        assert "needs JavaScript" in page.locator("main").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_the_systems_own_colours_nothing_is_told_by_a_background(make_play, open_page, scheme):
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
        assert edges[0] != edges[1]  # whose turn it is
        play = page.locator("[data-key=play]")
        plain = play.screenshot()
        press(page, ["p"])
        page.locator("[data-key=back]").focus()
        assert play.screenshot() != plain
        # The browser puts its colours on as it paints: axe reads the text's own and no background.
        found = [line for line in violations(page) if not line.startswith("color-contrast")]
        assert found == []


def test_in_the_systems_own_colours_bars_have_a_length(make_play, open_page):
    with serve(make_play(Rules(), watch=True)) as address:
        page = open_page(address, forced_colors="active")
        bars = page.locator(".chances .bar")
        assert bars.first.screenshot() != bars.last.screenshot()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_with_more_contrast_what_is_chosen_can_be_read(make_play, open_page, scheme):
    with serve(make_play(Rules())) as address:
        page = open_page(address, contrast="more", color_scheme=scheme)
        assert my_turn(page)
        press(page, ["2"])
        back, ink, line = page.locator("[data-key=card-2] .card").evaluate(
            "(card) => [getComputedStyle(card).backgroundColor, getComputedStyle(card).color,"
            " getComputedStyle(document.querySelector('[data-key=back]')).borderTopColor]"
        )
        assert back != ink and line == ink
        assert violations(page) == []


def test_the_focus_is_seen_on_what_is_chosen(make_play, open_page):
    with serve(make_play(Rules())) as address:
        page = open_page(address)
        assert my_turn(page)
        press(page, ["p", "1", "Tab"])
        box = page.locator("[data-key=play]").bounding_box()
        clip = {"x": box["x"] - 8, "y": box["y"], "width": 8, "height": box["height"]}
        elsewhere = page.screenshot(clip=clip)
        press(page, ["Shift+Tab"] * 3)
        assert page.evaluate("document.activeElement.dataset.key") == "play"
        assert page.screenshot(clip=clip) != elsewhere


@pytest.mark.parametrize("size", [(640, 400), (320, 256)], ids=["200%", "400%"])
@pytest.mark.parametrize("over", [False, True], ids=["play", "replay"])
def test_what_has_the_focus_is_seen_at_any_zoom(make_play, open_page, size, over):
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
        page.reload()  # the focus is nowhere
        page.wait_for_selector(".board")
        page.evaluate("document.querySelector('details.more').open = true")
        met = []
        while len(met) < 60:
            press(page, ["Tab"])
            seen = page.evaluate(SEEN)
            if seen is None:
                break
            met.append(seen)
        assert len(met) > 8 and [seen["what"] for seen in met if seen["hidden"]] == []
        assert not scrolls_sideways(page)


@pytest.mark.parametrize("watch", [False, True], ids=["play", "watch"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_text_is_as_large_as_the_browser_is_set_to(make_play, browser, size, watch):
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
