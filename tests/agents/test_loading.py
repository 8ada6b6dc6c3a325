"""Agent names, their options, and the agent catalog."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import compiled as game
from support.compiled import observe
from support.policies import network_policy

from hanabi_rl.agents.bots.registry import BOTS
from hanabi_rl.agents.color_permuted import ColorPermuted
from hanabi_rl.agents.loading import (
    AgentName,
    agent_catalog,
    load_agents,
    load_policy,
    parse_name,
    read_value,
)
from hanabi_rl.agents.policy_file import write_file
from hanabi_rl.agents.tempered import Tempered
from hanabi_rl.cli.app import main
from hanabi_rl.evaluation.measure.matrix import make_agents
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules

RULES = Rules(num_players=3, num_colors=2, num_ranks=3, hand_size=2, max_life_tokens=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bot:convention", ("bot", "convention", {})),
        ("bot:x?a=1&b=0.5,0.1", ("bot", "x", {"a": "1", "b": "0.5,0.1"})),
        ("runs/a/policy?colors=1,0", ("", "runs/a/policy", {"colors": "1,0"})),
        ("obl:/tmp/x.safetensors?a=b=c", ("obl", "/tmp/x.safetensors", {"a": "b=c"})),
        ("C:folder", ("", "C:folder", {})),
    ],
)
def test_agent_names_parse(text: str, expected: tuple) -> None:
    name = parse_name(text)
    assert name == AgentName(*expected)
    assert text.partition("?")[0] == name.without_options


@pytest.mark.parametrize("text", ["bot:x?", "bot:x?a", "bot:x?a=", "bot:x?=1", "bot:x?a=1&&b=2"])
def test_malformed_options_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="expected \\?key=value&..., got"):
        load_policy(text)
    with pytest.raises(ValueError, match="expected a once, got it twice"):
        parse_name("bot:x?a=1&a=1")


def test_option_values_are_typed() -> None:
    assert read_value("3", int, where="x") == 3
    assert read_value("true", bool, where="x") is True
    assert read_value("0.6,0.1", tuple[float, ...], where="x") == (0.6, 0.1)
    for text, kind in [("2.5", int), ("yes", bool), ("a", float), ("1,b", tuple[int, ...])]:
        with pytest.raises(ValueError, match="x: expected (int|bool|float), got"):
            read_value(text, kind, where="x")


def test_bots_load_by_name_with_distinct_identities() -> None:
    names = ["bot:random", "bot:convention"]
    bots = [load_policy(name, RULES) for name in names]
    assert all(bot.rules == RULES for bot in bots)
    assert len({bot.identity() for bot in bots}) == 2
    assert load_policy("bot:random").identity() == bots[0].identity()
    assert load_policy("bot:random").rules == Rules()
    with pytest.raises(ValueError, match="bot:nobody"):
        load_policy("bot:nobody")


def test_invalid_agents_are_rejected() -> None:
    bot = load_policy("bot:convention?smoothing=0.1", RULES)
    assert repr(bot) == f"ConventionBot(rules={RULES!r}, smoothing=0.1)"
    policy = network_policy(RULES, 0)
    trained = repr(Tempered(policy, temperature=0.5))
    assert "Array" not in trained and repr(policy.network) in trained and "=0.5" in trained
    with pytest.raises(TypeError, match="name or path of an agent, .* got ConventionBot and Non"):
        load_policy(bot)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="and a game or None, got str and int"):
        load_policy("bot:convention", 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "bot:convention?smothing=0.1",
            "expected one of smoothing, colors, gullible, noise, partner_games, safe, search, "
            "temperature, unstuck, got 'smothing'",
        ),
        ("bot:convention?smoothing=much", "smoothing: expected float, got 'much'"),
        ("bot:convention?smoothing=1.5", "smoothing: expected a probability between 0 and"),
        (
            "bot:random?smoothing=0.5",
            "expected one of colors, gullible, noise, partner_games, safe, search, temperature, "
            "unstuck, got 'smoothing'",
        ),
        ("bot:convention?colors=0,1,2", "colors: expected a permutation of the colours 0 to 1"),
        (
            "/nowhere?colour=0",
            "expected one of colors, gullible, noise, partner_games, safe, search, temperature, "
            "unstuck, got 'colour'",
        ),
        ("bot:random?knows=games.json", "knows=games.json: knows was renamed to partner_games"),
        ("agent:x?search=fast&hands=64", "hands=64: hands was renamed to num_hands"),
    ],
)
def test_unknown_options_are_rejected(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_policy(name, RULES)


@pytest.mark.slow
def test_bot_parameters_change_identity_and_logits() -> None:
    """First move of a game: the same choice, with eps of the probability spread over the A legal
    actions."""
    plain, same, other = (
        load_policy(f"bot:convention{setting}", Rules())
        for setting in ("", "?smoothing=0.02", "?smoothing=0.5")
    )
    assert plain.identity() == same.identity() != other.identity()
    state = game.deal(Rules(), jnp.array([full_deck(Rules())], jnp.int32))
    seen = observe(Rules(), state)[0], game.legal_actions(Rules(), state)[0], jnp.ones(2, bool)
    legal, chosen = np.asarray(seen[1]), []
    for bot, eps in ((plain, 0.02), (other, 0.5)):
        _, logits = jax.jit(type(bot).step)(bot, bot.init_carry(2), *seen)
        odds = np.exp(np.asarray(logits, np.float64))
        chosen.append(odds.argmax(axis=1))
        count = legal.sum(axis=1, keepdims=True)
        expected = np.where(legal, eps / count, 0) + (1 - eps) * np.eye(21)[chosen[-1]]
        np.testing.assert_allclose(odds, expected, rtol=1e-5)
    np.testing.assert_array_equal(chosen[0], chosen[1])
    assert legal[0].sum() > 1 and chosen[0][1] == 20


def test_cross_play_accepts_wrapped_agents() -> None:
    names = ["bot:convention", "bot:convention?colors=1,0,2,3,4", "bot:convention?smoothing=0.5"]
    first, renamed, _ = policies = load_agents([*names], 2)
    assert isinstance(renamed, ColorPermuted) and renamed.policy.identity() == first.identity()
    agents = make_agents(policies, names, ["a", "b", "c"])
    assert len({agent.hash for agent in agents}) == 3
    with pytest.raises(ValueError, match="expected policies that differ"):
        make_agents(load_agents([names[0], f"{names[0]}?smoothing=0.02"]), ["p", "q"], ["a", "a"])


def test_tilde_in_name_is_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path / "a b.safetensors", network_policy(Rules(), 0), {})
    assert load_policy("~/a b.safetensors").identity() == network_policy(Rules(), 0).identity()
    for name, message in (
        ("~/none", f"got {tmp_path}/none, which does not exist"),
        (
            "bot:random?partner_games=~/g.json",
            f"bot:random?partner_games={tmp_path}/g.json: partner_games: ",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            load_policy(name)
    with pytest.raises(SystemExit):
        main(["evaluate", "~/none", "--games", "4"])
    assert f"got {tmp_path}/none, which" in capsys.readouterr().err
    assert not (tmp_path / "~").exists()


def test_repeated_name_loads_once() -> None:
    left, right = load_agents(["bot:random", "bot:random"], 4)
    assert left is right and left.rules == Rules(num_players=4)


def test_agent_catalog_lists_all_agents(capsys: pytest.CaptureFixture[str]) -> None:
    main(["agents", "--json"])
    catalog = json.loads(capsys.readouterr().out)
    assert catalog == agent_catalog()
    bots = {agent["name"]: agent for agent in catalog["agents"] if "version" in agent}
    assert list(bots) == [f"bot:{name}" for name in BOTS]
    assert bots["bot:convention"]["parameters"]["smoothing"] == {"type": "float", "default": 0.02}
    main(["agents"])
    output = capsys.readouterr().out
    assert bots["bot:smart"]["scores"]["3"]["games"] == 5000
    assert "self-play: 2 players 23.44, 3 players 23.48" in output
    for name in (*bots, "obl:FILE", "?smoothing=0.02 (float)", "?colors=1,0,2,3,4"):
        assert name in output
