"""The page in a real Chromium: whole games by keyboard alone, reloads, two tabs, accessibility."""

import importlib.util
import re
import shutil
import time
from pathlib import Path

import pytest
from support.serving import make_study_play, serve, serve_app

from hanabi_rl.data.files import load_games
from hanabi_rl.env.game import Rules
from hanabi_rl.serve.study_pages import make_study

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
SIZES = [(1280, 800), (360, 740)]
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium"),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None, reason="needs Playwright's Python package"
    ),
]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """`open_page(address, size, scheme, shows)`, once it shows that selector; an error in a page's
    script fails the test."""
    contexts, problems = [], []

    def make(address, size=SIZES[0], scheme="light", shows=".board"):
        viewport = {"width": size[0], "height": size[1]}
        contexts.append(browser.new_context(viewport=viewport, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)
        page.wait_for_selector(shows)
        return page

    yield make
    for context in contexts:
        context.close()
    assert problems == []


def press(page, keys):
    for key in keys:
        page.keyboard.press(key)


def until(page, condition):
    """Waits for a condition of the page. (Playwright's own way to wait evaluates strings inside the
    page, which its Content-Security-Policy forbids.)"""
    end = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"{condition}: {page.title()}"
        page.wait_for_timeout(10)


def my_turn(page):
    """Waits; False once the game is over."""
    until(page, "/^●|^Game over/.test(document.title)")
    return page.title().startswith("●")


def move_by_keys(page, number):
    """Every third time plays or discards a card, else tells something that is allowed."""
    turn = re.search(r"Turn (\d+)", page.title()).group(1)
    told = page.locator("button.hint[aria-disabled=false]")
    if number % 3 == 2 or told.count() == 0:
        full = page.locator(".counters strong").first.inner_text() == "8"
        press(page, ["p" if full else "d", "1"])
    else:
        _, _, kind, value = told.nth(number % told.count()).get_attribute("data-key").split("-")
        press(page, ["h", "rygwb"[int(value)] if kind == "color" else value])
    assert page.locator("button.go").get_attribute("aria-disabled") == "false"
    press(page, ["Enter"])
    until(page, f"!document.title.includes('Turn {turn}:')")


def scrolls_sideways(page):
    return page.evaluate("document.documentElement.scrollWidth > window.innerWidth")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_whole_game_by_keyboard_alone_with_a_reload(make_play, open_page, tmp_path, size):
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
        press(page, ["Home"])  # the replay: from the deal, all hands open
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


def test_a_choice_is_taken_back_and_what_is_not_allowed_says_why(make_play, open_page):
    play = make_play(Rules())
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        press(page, ["d", "2"])
        assert "Not allowed: all hints are there" in page.locator("#actions").inner_text()
        press(page, ["Enter", "Escape"])
        assert "Choose a card" in page.locator("#actions").inner_text()
        press(page, ["ArrowRight", "ArrowRight"])
        assert page.locator(".possible caption").inner_text() == "Card 2 can be"
        assert page.locator("button.mine[aria-pressed=true]").count() == 1
        assert play.game(max(play._games)).turn == 0


def test_three_players_are_named_by_number(make_play, open_page):
    play = make_play(Rules(num_players=3), seed=4)
    with serve(play) as address:
        page = open_page(address)
        assert my_turn(page)
        press(page, ["h"])
        assert "Tell whom? 1 Bob, 2 Cathy" in page.locator("#actions").inner_text()
        key = page.locator("button.hint[aria-disabled=false][data-key^=hint-2-rank]").first
        value = key.get_attribute("data-key")[-1]
        press(page, ["2", value, "Enter"])
        until(page, "document.querySelectorAll('#log li').length > 0")
        assert page.locator("#log li").first.inner_text().startswith(f"You tell Cathy {value}")


def test_two_tabs_show_one_game_and_a_lost_connection_comes_back(make_play, open_page):
    play = make_play(Rules())
    with serve(play) as address:
        first, second = open_page(address), open_page(address)
        assert my_turn(first) and my_turn(second)
        move_by_keys(first, 0)
        until(second, "document.querySelectorAll('#log li').length == 2")
        assert my_turn(second)
        second.context.set_offline(True)
        second.evaluate("fetch('/').catch(() => 0)")
        move_by_keys(first, 1)
        assert my_turn(first)
        second.context.set_offline(False)
        until(second, "document.querySelectorAll('#log li').length == 4")
        assert my_turn(second)
        move_by_keys(second, 2)


def test_agents_are_watched_by_keys(make_play, open_page):
    play = make_play(Rules(), watch=True)
    with serve(play) as address:
        page = open_page(address)
        for turn in range(1, 4):
            assert page.locator(".chances .taken").count() == 1
            press(page, ["ArrowRight"])
            until(page, f"document.querySelectorAll('#log li').length == {turn}")
        press(page, ["ArrowLeft"])
        assert page.locator("#log li").count() == 2
        assert play.game(max(play._games)).turn == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("watch", [False, True], ids=["play", "watch"])
def test_axe_finds_no_violation(make_play, open_page, size, scheme, watch):
    """At the start, in the middle (a card chosen, everything open), and at the end."""
    play = make_play(Rules(), watch=watch)
    with serve(play) as address:
        page = open_page(address, size, scheme)
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
            page.locator("#leave").click()
            page.wait_for_selector(".replay")
            assert violations(page) == []
        assert not scrolls_sideways(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_study_is_walked_through_by_keyboard_and_axe_finds_no_violation(
    open_page, tmp_path, size, scheme
):
    play = make_study_play(tmp_path, Rules())
    with serve_app(make_study(play, pause=0.0)) as address:
        page = open_page(address, size, scheme, shows=".choices")
        seen = []
        while not seen or seen[-1] != "Thank you!":
            if page.locator(".board").count():
                for number in range(3):
                    assert my_turn(page)
                    move_by_keys(page, number)
                page.evaluate("document.querySelector('details.more').open = true")
                page.locator("#leave").click()
                page.wait_for_selector(".replay")
            seen.append(page.locator("h1").first.inner_text())
            assert violations(page) == []
            assert not scrolls_sideways(page), seen
            if seen[-1] != "Thank you!":
                page.locator(".replay .go" if page.locator(".replay").count() else ".go").focus()
                press(page, ["Enter"])
                page.wait_for_timeout(300)
        page.goto(f"{address}withdraw")
        assert violations(page) == []
        page.locator("button.go").focus()
        press(page, ["Enter"])
        page.wait_for_selector("[role=status]")
    assert [text for text in seen if text.startswith("About")] == ["About game 1", "About game 2"]
    assert play.folder.everyone() == []


def violations(page):
    """What axe-core says, a line each."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run().then((result) => result.violations)")
    return [
        f"{problem['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
        for problem in found
        for node in problem["nodes"]
    ]
