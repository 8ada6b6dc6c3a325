"""The kitchen and its replay in Chromium: whole games, 1,000 presses, touch, accessibility."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.browser import NEEDS_BROWSER, SIZES, press, scrolls_sideways, until, violations
from support.serving import serve_app

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.recorded_games import load_recorded_games
from hanabi_rl.games.overcooked.transitions import STAY
from hanabi_rl.people.serve.overcooked.play import KitchenPlay
from hanabi_rl.people.serve.overcooked.web import make_app

pytestmark = NEEDS_BROWSER

KEYS = ["ArrowUp", "ArrowDown", "ArrowRight", "ArrowLeft", "", " "]
U, D, R, L, S, I = range(6)  # noqa: E741
ONION = [L, I, R, U, I]
"""From the cell left of the pot or below it, put an onion into the pot of the cramped room."""
SOUP = [U, *ONION, *ONION, *ONION, L, D, D, I, U, R, U, *[S] * 20, I, D, R, D, I]
"""Player 0 alone serves a soup."""
STILL = "bot:still?smoothing=1e-9"
READY = "#start:not([disabled])"


@pytest.fixture
def kitchen(tmp_path):
    """`kitchen(agent, ...)`: address of games in the cramped room, in seat 0."""
    servers = []

    def make(agent=STILL, **settings):
        policy = load_policy(agent, Overcooked())
        play = KitchenPlay(policy, agent, tmp_path, seat=0, seed=0, **settings)
        servers.append(serve_app(make_app(play.find, play)))
        return servers[-1].__enter__()

    yield make
    for server in servers:
        server.__exit__(None, None, None)


def saved(page):
    """The last game of the page."""
    until(page, "document.querySelector('#saved').textContent !== ''")
    return load_recorded_games(Path(page.locator("#saved").inner_text().split("Saved: ")[1]))


def act(page, actions, steps_per_s):
    """One key per step, or none."""
    for action in actions:
        if action != S:
            page.keyboard.press(KEYS[action])
        page.wait_for_timeout(1000 / steps_per_s)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_soup_is_served_and_replayed(kitchen, open_page, size):
    address = kitchen(horizon=160, steps_per_s=10.0)
    page = open_page(address, size, wait=READY, reduced_motion="reduce")
    assert page.locator("#state").inner_text() == "You are blue (round hat). Press Start."
    for _ in range(2):  # the second game begins without a reload
        press(page, ["Enter"])  # Start has the focus
        until(page, "times.first > 0")
        assert page.evaluate("times.first - times.start") < 3000  # ms
        act(page, SOUP, 10)
        until(page, "document.querySelector('#score').textContent === '20'")
        assert page.locator("#state").inner_text() == "Soup served: 20 points"
        assert not scrolls_sideways(page)
        games = saved(page)
        own = games.actions[:, 0]
        assert own[own != STAY].tolist() == [action for action in SOUP if action != S]
        assert games.scores.tolist() == [20] and games.human_seats.tolist() == [[True, False]]
        assert "Time is up: 20 points." in page.locator("#state").inner_text()
        assert page.locator("#start").inner_text() == "Play again"

    page.locator("#replay").click()
    until(page, "document.querySelector('#step')?.textContent === '0 of 160'")
    press(page, ["End"])
    assert page.locator("#score").inner_text() == "20"
    press(page, ["ArrowLeft", "Home", "ArrowRight"])
    assert page.locator("#step").inner_text() == "1 of 160"
    page.locator("#speed").select_option("8")
    page.locator("#run").click()
    until(page, "parseInt(document.querySelector('#step').textContent) > 20")
    page.locator("#run").click()
    paused = page.locator("#step").inner_text()
    page.wait_for_timeout(100)
    assert page.locator("#step").inner_text() == paused != "160 of 160"
    page.locator("#run").click()
    until(page, "document.querySelector('#step').textContent === '160 of 160'")
    assert page.locator("#run").inner_text() == "Play from the start"
    assert not scrolls_sideways(page)


def test_none_of_1000_presses_is_dropped(kitchen, open_page):
    rng = np.random.default_rng(0)
    keys = rng.choice([U, D, R, L, I], 1000)
    page = open_page(kitchen("bot:random", horizon=4000, steps_per_s=20.0), wait=READY)
    press(page, ["Enter"])
    for key in keys:
        page.keyboard.press(KEYS[key])
        page.wait_for_timeout(float(rng.uniform(40, 90)))
    page.wait_for_timeout(300)
    press(page, ["Escape"])
    games = saved(page)
    own = games.actions[:, 0]
    assert own[own != STAY].tolist() == keys.tolist()
    assert games.origins[0].dropped_presses == 0


def test_a_held_key_repeats_until_the_window_loses_focus(kitchen, open_page):
    page = open_page(kitchen(horizon=400, steps_per_s=20.0), wait=READY)
    press(page, ["Enter"])
    until(page, "times.first > 0")
    page.keyboard.down("ArrowRight")
    for _ in range(20):  # the keyboard's own repeats are not presses
        page.keyboard.down("ArrowRight")
        page.wait_for_timeout(30)
    page.evaluate("dispatchEvent(new Event('blur'))")
    page.wait_for_timeout(300)
    press(page, ["Escape"])
    own = saved(page).actions[:, 0]
    pressed = np.flatnonzero(own == R)
    again = pressed[1:]  # after 0.2 s
    assert 4 <= len(again) <= 300 and np.ptp(again) == len(again) - 1
    assert again[0] - pressed[0] >= 2
    assert own[pressed[-1] + 1 :].max() == own[pressed[-1] + 1 :].min() == STAY


def test_buttons_on_a_phone(kitchen, open_page):
    page = open_page(kitchen(horizon=400, steps_per_s=10.0), (390, 844), wait=READY, has_touch=True)
    page.locator("#start").tap()
    until(page, "times.first > 0")
    for action in (U, L, I, R):
        page.locator(f".pad [data-action='{action}']").tap()
        page.wait_for_timeout(120)
    box = page.locator(".pad").bounding_box()
    assert box["y"] + box["height"] <= 844  # without scrolling
    page.locator("#stop").tap()
    own = saved(page).actions[:, 0]
    assert own[own != STAY].tolist() == [U, L, I, R]


@pytest.mark.parametrize("look", [{}, {"color_scheme": "dark"}, {"forced_colors": "active"}])
def test_no_violations(kitchen, open_page, look):
    address = kitchen("bot:random", horizon=300, steps_per_s=20.0)
    page = open_page(address, wait=READY, reduced_motion="reduce", **look)
    assert violations(page) == []
    press(page, ["Enter"])
    until(page, "times.first > 0")
    assert violations(page) == []
    press(page, ["Escape"])
    saved(page)
    assert violations(page) == []
    page.locator("#replay").click()
    until(page, "document.querySelector('#step')?.textContent.startsWith('0 of')")
    assert violations(page) == []


@pytest.mark.parametrize(("motion", "glides"), [("reduce", False), ("no-preference", True)])
def test_players_glide_unless_less_motion_is_preferred(kitchen, open_page, motion, glides):
    address = kitchen(horizon=400, steps_per_s=5.0)
    page = open_page(address, wait=READY, reduced_motion=motion)
    press(page, ["Enter"])
    until(page, "times.first > 0")
    press(page, ["ArrowUp"])
    player = "document.querySelector('.player-0')"
    until(page, f"{player}.getAttribute('transform').startsWith('translate(60 60)')")
    assert page.evaluate(f"{player}.getAnimations().length > 0") == glides
    press(page, ["Escape"])
    page.locator("#replay").click()
    until(page, "/^\\d+ of/.test(document.querySelector('#step')?.textContent)")
    if glides:  # the replay starts by itself
        until(page, "parseInt(document.querySelector('#step').textContent) > 0")
    else:
        page.wait_for_timeout(500)
        assert page.locator("#step").inner_text().startswith("0 of")
