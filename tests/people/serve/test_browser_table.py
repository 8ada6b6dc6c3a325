"""The table in Chromium: no overlaps, hint arrows, motion, notes, possible cards, what-if lines."""

import json

import pytest
from support.browser import (
    NEEDS_BROWSER,
    SIZES,
    leave,
    move_by_keys,
    my_turn,
    press,
    until,
    violations,
)
from support.serving import serve

from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.annotate import annotate
from hanabi_rl.games.hanabi.rules import Rules

pytestmark = NEEDS_BROWSER

ALL_SIZES = [*SIZES, (1920, 1080), (768, 1024)]
OVERLAPS = """() => {
  const parts = [...document.querySelectorAll(`.top > *, h2:not(.sr), .cards > li, .arrow,
    .slot, .hint, .uses > *, .about > *, .pile, .deck, .counters > *, .chances li, .legend > *,
    [role=log], .more > *,
    #actions p, #actions button, #actions input, #actions a`)];
  const seen = (part) => { // as far as what scrolls around it shows it
    let { left, top, right, bottom } = part.getBoundingClientRect();
    for (let box = part.parentElement; box !== document.body; box = box.parentElement) {
      if (getComputedStyle(box).overflow === "visible") continue;
      const within = box.getBoundingClientRect();
      left = Math.max(left, within.left); right = Math.min(right, within.right);
      top = Math.max(top, within.top); bottom = Math.min(bottom, within.bottom);
    }
    return { part, left, top, right, bottom };
  };
  const boxes = parts.filter((part) => part.checkVisibility()).map(seen)
    .filter((box) => box.right - box.left > 1 && box.bottom - box.top > 1);
  const found = [];
  for (const [index, one] of boxes.entries()) for (const other of boxes.slice(index + 1)) {
    if (one.part.contains(other.part) || other.part.contains(one.part)) continue;
    if (Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1
      && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1) {
      found.push(one.part.outerHTML.slice(0, 90) + " / " + other.part.outerHTML.slice(0, 90));
    }
  }
  return found;
}"""
ARROWS = """[...document.querySelectorAll(".mark")].map((mark) => {
  const arrow = mark.firstElementChild.getBoundingClientRect();
  const card = mark.parentElement.querySelector(".card"), box = card.getBoundingClientRect();
  return {
    place: Number(mark.closest("li").dataset.order), label: mark.textContent,
    middle: Math.abs(arrow.left + arrow.right - box.left - box.right) / 2,
    above: box.top - arrow.bottom,
  };
})"""


@pytest.mark.parametrize(
    ("players", "watch"), [(2, False), (2, True), (3, False), (5, False)], ids=str
)
def test_elements_do_not_overlap_at_four_sizes(make_play, open_page, players, watch):
    """With a card chosen and the settings open, at the top and end of the page, and in the
    replay."""
    play = make_play(Rules(num_players=players), watch=watch)
    with serve(play) as address:
        page = open_page(address, reduced_motion="reduce")
        if watch:
            for turn in range(1, 9):
                press(page, ["ArrowRight"])
                until(page, f"document.querySelectorAll('#log li').length == {turn}")
        else:
            for number in range(2):
                assert my_turn(page)
                move_by_keys(page, number)
            assert my_turn(page)
            press(page, ["2"])
        for over in [False] if watch else [False, True]:
            if over:
                leave(page)
                page.wait_for_selector(".replay")
            for width, height in ALL_SIZES:
                page.set_viewport_size({"width": width, "height": height})
                for opened in (False, True):
                    page.evaluate(f"document.querySelector('.more').open = {str(opened).lower()}")
                    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
                    assert page.evaluate(OVERLAPS) == [], (width, height, opened)
                if width > 1000:  # the whole table is visible without scrolling
                    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")


def test_arrows_mark_cards_of_last_hint(make_play, open_page):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        for number, kind in enumerate((".rank", ":not(.rank)")):
            assert my_turn(page)
            page.locator(f"button.hint{kind}[aria-disabled=false]").first.click()
            page.locator("button.go").click()
            until(page, f"document.querySelectorAll('#log li').length == {2 * number + 2}")
        leave(page)
        page.wait_for_selector(".replay")
        press(page, ["Home"])
        hints = set()
        for frame in play.history(max(play._games))[1:]:
            press(page, ["ArrowRight"])
            until(page, "document.getAnimations().length === 0")
            last, found = frame["last"], page.evaluate(ARROWS)
            assert page.evaluate(OVERLAPS) == []
            if last["target"] is None:
                assert found == []
                continue
            hints.add(last["kind"])
            label = "RYGWB"[last["value"]] if last["kind"] == "color" else str(last["value"])
            assert sorted(arrow["place"] for arrow in found) == sorted(last["orders"])
            assert {arrow["label"] for arrow in found} == {label}
            assert all(arrow["middle"] < 1 and 0 < arrow["above"] < 8 for arrow in found)
            assert page.locator(".pointed").count() == len(found)
        assert hints == {"color", "rank"}


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_cards_move_unless_reduced_motion(make_play, open_page, motion):
    play = make_play(Rules(), watch=True)
    count = "(window.moves = 0, Element.prototype.animate = new Proxy(Element.prototype.animate, {"
    count += "apply: (...given) => (window.moves++, Reflect.apply(...given))}))"
    with serve(play) as address:
        page = open_page(address, script=count, reduced_motion=motion)
        for turn in range(1, 7):
            press(page, ["ArrowRight"])  # ends autoplay
            until(page, f"document.querySelectorAll('#log li').length >= {turn}")
        assert (page.evaluate("moves") > 0) == (motion == "no-preference")
        moves = page.evaluate("moves")
        press(page, ["Home"])  # a jump
        assert page.evaluate("moves") == moves


def test_played_card_is_marked_on_its_pile(make_play, open_page):
    play = make_play(Rules(), watch=True)
    with serve(play) as address:
        page = open_page(address, reduced_motion="reduce")
        seen = set()
        for turn in range(1, 30):
            press(page, ["ArrowRight"])
            until(page, f"document.querySelectorAll('#log li').length == {turn}")
            last = play.frame(max(play._games))["last"]
            if last["card"] is None:
                assert page.locator(".pile.last").count() == 0
                continue
            scored = last["kind"] == "play" and last["success"]
            seen.add(scored)
            (mark,) = page.locator(".pile.last").all()
            where = ".stacks" if scored else ".discards"
            assert page.locator(f"{where} .pile.last").count() == 1
            color, rank = last["card"]
            assert mark.locator(".face").inner_text() == f"{'RYGWB'[color]}{rank}"
            assert mark.get_attribute("data-order") == str(last["orders"][0])
        assert seen == {True, False}


def test_notes_survive_reload_and_are_downloaded(make_play, open_page, tmp_path):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        order = play.frame(max(play._games))["hands"][0][1]["order"]
        press(page, ["2", "n"])
        page.keyboard.type("p1 <b>?")  # ignored as keys of the page
        assert page.locator("[data-key=note]").input_value() == "p1 <b>?"
        press(page, ["Enter"])
        assert page.evaluate("document.activeElement.dataset.key") == "card-2"
        noted = page.locator(f"[data-order='{order}']")
        assert noted.locator(".note").inner_text() == "✎ p1 <b>?"
        assert "your note: p1 <b>?" in noted.locator(".sr").inner_text()
        page.reload()
        page.wait_for_selector(".board")
        assert page.locator(".note").all_inner_texts() == ["✎ p1 <b>?"]
        number = 0
        while my_turn(page):
            move_by_keys(page, number)
            number += 1
        press(page, ["Home"])
        assert page.locator(".note").count() == 1
        page.evaluate("document.querySelector('.more').open = true")
        with page.expect_download() as download:
            page.locator("a[href='../games.json']").click()
        assert download.value.suggested_filename == "hanabi-2p.json"
        path = tmp_path / "downloaded.json"
        download.value.save_as(path)
        record = json.loads(path.read_text())
        mine, others = record["notes"]
        assert {place: note for place, note in enumerate(mine) if note} == {order: "p1 <b>?"}
        assert not any(others) and len(others) == len(record["deck"])
        assert load_games(path).game_ids.tolist() == [max(play._games)]


def test_unfinished_note_survives_partner_move(make_play, open_page):
    play = make_play(Rules())
    with serve(play, move_delay=1) as address:
        page = open_page(address)
        assert my_turn(page)
        move_by_keys(page, 0)
        press(page, ["3"])
        page.locator("[data-key=card-3]").click()
        page.locator("[data-key=note]").fill("abc")
        press(page, ["ArrowLeft"])
        until(page, "document.querySelectorAll('#log li').length == 2")
        page.locator("[data-key=card-3]").click()
        assert page.locator("[data-key=note]").input_value() == "abc"


def test_tooltip_shows_possible_cards_for_mouse_and_touch(make_play, open_page):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address, has_touch=True)
        assert my_turn(page)
        hint_button = page.locator("button.hint.rank[aria-disabled=false]").first
        rank = hint_button.inner_text()
        press(page, ["h", rank, "Enter"])
        until(page, "document.querySelectorAll('#log li').length == 2")
        touched = page.locator(".hand:not(.own) .left.is", has_text=rank).first
        place = touched.locator("xpath=ancestor::li")
        place.hover()
        tip = page.locator(".tip")
        assert tip.locator("caption").inner_text().startswith("Bob: slot")
        assert tip.locator(".can").all_inner_texts() == [rank] * 5
        press(page, ["Escape"])
        assert tip.count() == 0
        box = page.locator(".own li").nth(3).bounding_box()
        session = page.context.new_cdp_session(page)
        point = {"x": box["x"] + 20, "y": box["y"] + 40}
        session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
        until(page, "document.querySelector('.tip')")
        assert tip.locator("caption").inner_text() == "Your slot 4 can be"
        assert page.locator("button.mine[aria-pressed=true]").count() == 0
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_dragged_card_selects_move(make_play, open_page):
    play = make_play(Rules())

    def drag(slot, to):
        ends = [page.locator(f"[data-key=card-{slot}]"), page.locator(to)]
        (x, y), (there_x, there_y) = (
            (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            for box in (end.bounding_box() for end in ends)
        )
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(there_x, there_y, steps=4)
        assert page.locator(".ghost").count() == 1
        page.mouse.up()
        assert page.locator(".ghost").count() == 0

    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        drag(2, ".fireworks")
        assert page.locator("#asked").inner_text() == "Play slot 2?"
        drag(3, ".discards")
        assert page.locator("#asked").inner_text().startswith("Discard slot 3? Not allowed")
        press(page, ["Escape"])
        drag(3, ".counters")
        assert page.locator("#asked").inner_text() == "Choose a card or a hint"
        page.evaluate("document.querySelector('[data-setting=atOnce]').click()")
        drag(4, ".fireworks")
        until(page, "document.querySelectorAll('#log li').length > 0")
        assert page.locator("#log li").first.inner_text().startswith("You play slot 4")


def test_keys_control_hypothetical_line(make_play, open_page):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        press(page, ["v"])  # ignored during the game
        assert page.locator(".line").count() == 0
        number = 0
        while my_turn(page):
            move_by_keys(page, number)
            number += 1
        game = play.game(max(play._games))
        press(page, ["Home", "ArrowRight", "v"])
        page.wait_for_selector(".line")
        assert page.locator("h1").inner_text() == "What if, turn 2: Bob to move"
        assert violations(page) == []
        press(page, ["p", "1", "Enter"])  # Bob's card, unplayed in the game
        until(page, "document.querySelector('h1').textContent.startsWith('What if, turn 3')")
        log_lines = page.locator("#log li").all_inner_texts()
        assert len(log_lines) == 2 and log_lines[1].startswith("Bob plays slot 1")
        assert page.locator("h1").inner_text() == "What if, turn 3: You to move"
        play_first = game.rules.hand_size
        note = annotate(game.rules, game.deck, [game.moves[0], play_first])[1]
        assert note.kind in page.locator("#convention").inner_text()
        hint_button = page.locator("button.hint[aria-disabled=false]").first
        hint_button.click()
        assert page.locator("#asked").inner_text().endswith("?")
        page.locator("button.go").click()
        until(page, "document.querySelectorAll('#log li').length == 3")
        assert page.evaluate(ARROWS)
        press(page, ["Backspace"])
        until(page, "document.querySelectorAll('#log li').length == 2")
        press(page, ["p", "Escape"])
        assert page.locator(".line").count() == 1
        press(page, ["Escape"])
        page.wait_for_selector(".replay")
        assert page.locator("#log li").count() == 1
        assert play.game(max(play._games)) == game


def test_log_shows_conventions(make_play, open_page):
    play = make_play(Rules(), watch=True)
    with serve(play) as address:
        page = open_page(address, reduced_motion="reduce")
        for turn in range(1, 12):
            press(page, ["ArrowRight"])
            until(page, f"document.querySelectorAll('#log li').length == {turn}")
        game = play.game(max(play._games))
        notes = annotate(game.rules, game.deck, game.moves)
        for line, note in zip(page.locator("#log li").all(), notes, strict=True):
            by = line.locator(".by").inner_text()
            assert note.kind in by and all(problem in by for problem in note.violations)
        assert notes[-1].kind in page.locator("#convention").inner_text()
        press(page, ["ArrowLeft"])
        assert notes[-2].kind in page.locator("#convention").inner_text()
