"""The page in Chromium: whole games by keyboard, reloads, two tabs, accessibility."""

import pytest
from support.browser import (
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
from support.serving import serve

from hanabi_rl.data.files import load_games
from hanabi_rl.games.hanabi.rules import Rules

PATTERNS = """[0, 1, 2, 3, 4].map((color) => {
  const card = document.createElement("span");
  card.className = `card c${color}`;
  document.body.append(card);
  const image = getComputedStyle(card).backgroundImage;
  card.remove();
  return image;
})"""

pytestmark = NEEDS_BROWSER


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_whole_game_by_keyboard_survives_reload(make_play, open_page, tmp_path, size):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address, size)
        number = 0
        while my_turn(page):
            move_by_keys(page, number)
            number += 1
            assert not scrolls_sideways(page)
            if number == 5:
                log = page.locator("#log li").all_inner_texts()
                page.reload()
                page.wait_for_selector(".board")
                assert page.locator("#log li").all_inner_texts()[: len(log)] == log
        game = play.game(max(play._games))
        score = game.table().score
        assert page.locator("h1").inner_text() == f"Game over: {score} of 25 points"
        assert page.locator(".replay a").get_attribute("href").startswith("https://")
        press(page, ["Home"])  # replay: from the deal, all hands open
        assert page.locator("h1").inner_text() == "Turn 1: your turn"
        assert page.locator(".card", has_text="?").count() == 0
        press(page, ["ArrowRight"])
        assert page.locator("#log li").count() == 1
        press(page, ["End"])
        with page.expect_navigation():
            press(page, ["n"])
        until(page, "/Turn [12]:/.test(document.title)")
        assert len(play._games) == 2
    games = load_games(tmp_path / "games" / f"2p-{game.game_id}.safetensors")
    assert tuple(games.moves(0)) == game.moves and games.scores.tolist() == [score]


def test_choice_is_cancelled_and_illegal_move_explained(make_play, open_page):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        press(page, ["d", "2"])
        assert "Not allowed: all hints are available" in page.locator("#actions").inner_text()
        press(page, ["Enter", "Escape"])
        assert "Choose a card" in page.locator("#actions").inner_text()
        press(page, ["ArrowRight", "ArrowRight"])
        assert page.locator(".possible caption").inner_text() == "Slot 2 can be"
        assert page.locator("button.mine[aria-pressed=true]").count() == 1
        assert play.game(max(play._games)).turn == 0


def test_three_players_are_selected_by_number(make_play, open_page):
    play = make_play(Rules(num_players=3), seed=4)
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        press(page, ["h"])
        assert "Hint which player? 1 Bob, 2 Cathy" in page.locator("#actions").inner_text()
        key = page.locator("button.hint[aria-disabled=false][data-key^=hint-2-rank]").first
        value = key.get_attribute("data-key")[-1]
        press(page, ["2", value, "Enter"])
        until(page, "document.querySelectorAll('#log li').length > 0")
        assert page.locator("#log li").first.inner_text().startswith(f"You hint Cathy {value}")


def test_newest_tab_moves_and_lost_connection_returns(make_play, open_page):
    play = make_play(Rules())
    with serve(play) as address:
        first, second = open_page(address), open_page(address)
        assert my_turn(first) and my_turn(second)
        until(first, "document.getElementById('role').textContent.includes('newer tab')")
        move_by_keys(second, 0)
        until(first, "document.querySelectorAll('#log li').length == 2")
        press(first, ["h", "1", "Enter"])
        first.context.set_offline(True)
        first.evaluate("fetch('/').catch(() => 0)")
        assert my_turn(second)
        move_by_keys(second, 1)
        assert my_turn(second)
        first.context.set_offline(False)
        until(first, "document.querySelectorAll('#log li').length == 4")
        second.close()
        until(first, "document.getElementById('role').textContent === ''")
        assert my_turn(first)
        move_by_keys(first, 2)


def test_lost_move_can_be_repeated_after_reconnect(make_play, browser):
    page, received = browser.new_page(), []

    def between(connection):
        server = connection.connect_to_server()
        received.append([])
        dropped = len(received) == 1

        def on_message(message):
            received[-1].append(message)
            if not dropped:
                server.send(message)

        connection.on_message(on_message)

    page.route_web_socket("**/ws*", between)
    page.clock.install()
    with serve(make_play(Rules())) as address:
        page.goto(address)
        page.wait_for_selector(".board")
        assert my_turn(page)
        press(page, ["h", "1", "Enter"])
        page.clock.fast_forward(9_000)
        assert len(received) == 1 and len(received[0]) == 1
        page.clock.fast_forward(1_100)
        until(page, "document.getElementById('network').textContent.includes('lost')")
        page.clock.fast_forward(600)
        until(page, "document.getElementById('network').textContent === ''")
        move_by_keys(page, 2)
    assert [len(messages) for messages in received] == [1, 1]
    page.close()


def test_pattern_setting_is_applied_and_saved(make_play, open_page):
    with serve(make_play(Rules())) as address:
        page = open_page(address)
        assert set(page.evaluate(PATTERNS)) == {"none"}
        page.locator("summary").click()
        page.locator("[data-setting=patterns]").check()
        page.reload()
        page.wait_for_selector(".board")
        patterns = page.evaluate(PATTERNS)
        assert len(set(patterns)) == 5 and "none" not in patterns


def test_keys_control_watched_game(make_play, open_page):
    play = make_play(Rules(), watch=True)
    with serve(play) as address:
        page = open_page(address, reduced_motion="reduce")
        for turn in range(1, 4):
            assert page.locator(".chances .taken").count() == 1
            press(page, ["ArrowRight"])
            until(page, f"document.querySelectorAll('#log li').length == {turn}")
        press(page, ["ArrowLeft"])
        assert page.locator("#log li").count() == 2
        assert play.game(max(play._games)).turn == 3


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_watched_game_plays_by_itself_until_stopped(make_play, open_page, motion):
    play = make_play(Rules(), watch=True)
    lines = "document.querySelectorAll('#log li').length"
    with serve(play) as address:
        page = open_page(address, reduced_motion=motion)
        auto = page.locator("[data-key=auto]")
        if motion == "reduce":
            page.wait_for_timeout(1500)
            assert page.evaluate(lines) == 0 and auto.inner_text() == "Autoplay"
            auto.click()
        until(page, f"{lines} >= 2")
        assert auto.inner_text() == "Stop"
        press(page, ["ArrowLeft"])
        assert auto.inner_text() == "Autoplay"
        moves = play.game(max(play._games)).turn
        page.wait_for_timeout(1500)
        assert play.game(max(play._games)).turn <= moves + 1  # a move that was under way
        page.wait_for_timeout(500)
        game_id = max(play._games)
        while play.partner_to_move(game_id):
            turn = play.game(game_id).turn
            play.partner_moves(game_id, turn, play.partner_action(game_id))
        page.reload()
        page.wait_for_selector(".board")
        if motion == "reduce":
            assert page.locator("h1").inner_text() == "Turn 1: Alice's turn"
        turns = play.game(game_id).turn
        assert page.evaluate(lines) < turns // 2
        press(page, ["End"])
        until(page, f"{lines} == {turns}")
        press(page, ["a"])  # again from the deal
        until(page, f"{lines} < {turns // 2}")
        assert auto.inner_text() == "Stop"


def test_table_shows_slots_pips_and_chosen_card(make_play, open_page):
    """Slot numbers outside the cards; pips as in the frame; buttons at the own cards."""
    play = make_play(Rules(), seed=3)
    with serve(play) as address:
        page = open_page(address)
        for number in range(5):
            assert my_turn(page)
            move_by_keys(page, number)
        assert my_turn(page)
        frame = play.frame(max(play._games))
        cards = [card for hand in frame["hands"] for card in hand]
        for card in cards:
            place = page.locator(f"[data-order='{card['order']}']")
            slot, face = (
                place.locator(".slot").bounding_box(),
                place.locator(".card").bounding_box(),
            )
            assert slot["y"] + slot["height"] <= face["y"]
            colors, ranks = place.locator(".left").all()
            pips = colors.locator(":scope > *").all()
            shown = [pip.locator("use").count() == 1 for pip in pips]
            assert shown == [color in card["colors"] for color in range(5)]
            assert all(
                pip.locator("use").get_attribute("href") == f"#shape-{color}"
                for color, pip in enumerate(pips)
                if shown[color]
            )
            texts = ranks.locator(":scope > *").all_inner_texts()
            assert texts == [str(r) if r in card["ranks"] else "·" for r in range(1, 6)]
        assert any(len(card["ranks"]) < 5 for card in cards)
        assert page.locator("#legend li").all_inner_texts() == [
            f" {name}" for name in frame["colors"]
        ]
        page.locator("[data-key=card-2]").click()
        page.locator(".own [data-key=play]").click()
        assert page.locator("#asked").inner_text() == "Play slot 2?"
        paint = "(card) => getComputedStyle(card).backgroundColor"
        chosen, other = (
            page.locator(f"[data-key=card-{slot}] .card").evaluate(paint) for slot in (2, 3)
        )
        assert chosen != other
        page.locator(".own [data-key=discard]").click()
        assert page.locator("#asked").inner_text().startswith("Discard slot 2?")
        assert page.locator("#actions [data-key=play]").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("watch", [False, True], ids=["play", "watch"])
def test_axe_finds_no_violation(make_play, open_page, size, scheme, watch):
    """At the start, during the game (card chosen, everything open) and at the end."""
    play = make_play(Rules(), watch=watch)
    with serve(play) as address:
        page = open_page(address, size, color_scheme=scheme, reduced_motion="reduce")
        assert violations(page) == []
        page.evaluate("document.querySelector('details.more').open = true")
        if watch:
            press(page, ["ArrowRight"])
            until(page, "document.querySelectorAll('#log li').length == 1")
        else:
            for number in range(4):
                assert my_turn(page)
                move_by_keys(page, number)
            assert my_turn(page)
            press(page, ["2"])
        assert violations(page) == []
        if not watch:
            leave(page)
            page.wait_for_selector(".replay")
            assert violations(page) == []
        assert not scrolls_sideways(page)
