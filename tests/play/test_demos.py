"""Generated games: legal, repeatable, cached, regenerated if the cache is damaged."""

import numpy as np
import pytest
from support.games import TINY, TINY_3P

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.data.validation import validate_games
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play import demos
from hanabi_rl.play.decks import evaluation_decks


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HANABI_RL_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def generated(monkeypatch):
    """Calls that play games."""
    calls = []
    generate = demos.generate
    monkeypatch.setattr(demos, "generate", lambda *args: calls.append(args) or generate(*args))
    return calls


def test_demo_games_are_legal_cached_and_repeatable(cache, generated):
    games = demos.demo_games(TINY, "random", 12, seed=1)
    validate_games(games)
    assert len(games) == 12 and not games.unfinished.any()
    again = demos.demo_games(TINY, "random", 12, seed=1)
    assert len(generated) == 1
    np.testing.assert_array_equal(again.actions, games.actions)
    np.testing.assert_array_equal(again.decks, games.decks)
    assert [path.parent for path in cache.rglob("*.safetensors")] == [cache / "demos"]
    fresh = demos.generate(TINY, "random", 12, 1)
    np.testing.assert_array_equal(fresh.actions, games.actions)


def test_damaged_cache_is_regenerated(cache, generated):
    games = demos.demo_games(TINY, "random", 12, seed=1)
    path = demos.demo_path(TINY, "random", 12, 1)
    content = path.read_bytes()
    for damaged in (content[:100], content[:-8] + b"\xff" * 8):
        path.write_bytes(damaged)
        with pytest.warns(
            UserWarning, match="generating the cached games again, they are damaged: .*safetensors"
        ):
            again = demos.demo_games(TINY, "random", 12, seed=1)
        np.testing.assert_array_equal(again.actions, games.actions)
        assert path.read_bytes() == content


def test_unwritable_cache_still_returns_games(monkeypatch, generated):
    monkeypatch.setenv("HANABI_RL_CACHE", "/dev/null")
    with pytest.warns(UserWarning, match="the games could not be cached.*/dev/null"):
        games = demos.demo_games(TINY, "random", 12, seed=1)
    assert len(games) == 12 and len(generated) == 1


def test_demo_cache_path_depends_on_inputs(cache):
    paths = {
        demos.demo_path(TINY, "random", 12, 1),
        demos.demo_path(TINY, "random", 12, 2),
        demos.demo_path(TINY, "random", 13, 1),
        demos.demo_path(TINY, "convention", 12, 1),
        demos.demo_path(Rules(), "random", 12, 1),
        demos.demo_path(Rules(num_players=3), "random", 12, 1),
    }
    paths.add(demos.demo_path(TINY, "random", 12, 1, "situations"))
    assert len(paths) == 7


def test_purposes_use_different_decks(cache):
    games = {
        purpose: demos.demo_games(TINY, "random", 12, 1, purpose)
        for purpose in ("demos", "situations")
    }
    for purpose, played in games.items():
        np.testing.assert_array_equal(played.decks, evaluation_decks(TINY, 12, 1, purpose))
    assert (games["demos"].decks != games["situations"].decks).any()
    # the cache separates the purposes
    again = demos.demo_games(TINY, "random", 12, 1, "situations")
    np.testing.assert_array_equal(again.decks, games["situations"].decks)


def test_agents_rotate_seats_on_separate_decks(monkeypatch):
    """Three players, A+B: A B A, rotated by one seat per game."""
    calls = []

    class Enough(Exception):  # noqa: N818 - no error
        pass

    def play(*arguments, **options):
        calls.append((*arguments, options["seating"]))
        raise Enough

    monkeypatch.setattr(demos, "play_games", play)
    with pytest.raises(Enough):
        demos.generate(TINY_3P, "random+simple", 4, 7)
    ((agents, rules, decks, seed, seating),) = calls
    assert [agent.name for agent in agents] == ["random", "simple", "random"]
    assert (rules, seed) == (TINY_3P, 7)
    np.testing.assert_array_equal(decks, evaluation_decks(TINY_3P, 4, 7, "demos"))
    np.testing.assert_array_equal(seating, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]])


def test_search_games_are_saved_in_parts(cache, generated, monkeypatch, capsys):
    """A stopped run continues after the last saved games and ends with the same games."""
    arguments = TINY_3P, "random+random", 12, 1
    at_once = demos.generate(*arguments)
    monkeypatch.setattr(demos, "runs_search", lambda policy: True)
    monkeypatch.setattr(demos, "SAVE_EVERY", 5)
    play = demos.play_games

    def stopped(policies, rules, decks, *rest, **options):
        if len(decks) == 2:  # the last games
            raise KeyboardInterrupt
        return play(policies, rules, decks, *rest, **options)

    generated.clear()
    monkeypatch.setattr(demos, "play_games", stopped)
    with pytest.raises(KeyboardInterrupt):
        demos.demo_games(*arguments)
    (partial,) = cache.rglob("*.safetensors")
    assert f"10 of 12 games: {partial}" in capsys.readouterr().err
    assert partial != demos.demo_path(*arguments)

    monkeypatch.setattr(demos, "play_games", play)
    games = demos.demo_games(*arguments)
    assert [call[-1] for call in generated] == [0, 5, 10, 10]  # first game of each part
    for field in ("decks", "actions", "num_actions", "scores", "game_ids", "players"):
        np.testing.assert_array_equal(getattr(games, field), getattr(at_once, field))
    assert list(cache.rglob("*.safetensors")) == [demos.demo_path(*arguments)]


def test_games_record_players_by_seat(cache):
    """Two agents, three players, A B A, rotated by one seat per game."""
    games = demos.demo_games(TINY_3P, "random+random", 3, seed=1)
    again = demos.demo_games(TINY_3P, "random+random", 3, seed=1)  # from the cache
    for each in (games, again):
        assert each.players.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert not demos.generate(TINY, "random", 12, 1).players.any()


@pytest.mark.parametrize(
    ("bot", "names"),
    [
        ("A", ["A"]),
        ("A+B+A", ["A", "B", "A"]),
        ("A?noise=0.1+B", ["A?noise=0.1", "B"]),
        ("A?search=fast&partner_model=B+C", ["A?search=fast&partner_model=B+C"]),
        ("D+A?search=fast&partner_model=B+C", ["D", "A?search=fast&partner_model=B+C"]),
        (
            "A?search=fast&partner_model=B+C&num_hands=8+D",
            ["A?search=fast&partner_model=B+C&num_hands=8", "D"],
        ),
        ("A++B", ["A", "", "B"]),  # `load_policy` rejects it
    ],
)
def test_partner_models_are_not_players(bot, names, monkeypatch):
    assert demos.players_of(bot) == names
    monkeypatch.setattr(demos, "load_policy", lambda name, rules: load_policy("bot:random", rules))
    if "search" in bot:
        assert len(demos.demonstrators(TINY, bot)) == 2
        assert set(demos.generate(TINY, bot, 2, 1).players.flat) == {*range(len(names))}


def test_invalid_demo_requests_are_rejected(cache):
    with pytest.raises(ValueError, match="at least one game, got num_games=0"):
        demos.demo_games(TINY, "random", 0)
    with pytest.raises(ValueError, match="got 'bot:nobody'"):
        demos.demo_games(TINY, "nobody", 3)
