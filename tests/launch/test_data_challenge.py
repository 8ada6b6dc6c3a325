"""Data-limited challenge: training inputs, evaluation partners, resuming."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.games import TINY, teacher_games
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.leaderboard import play_leaderboard
from hanabi_rl.evaluation.measure.prediction import predict_decisions
from hanabi_rl.games.hanabi.dynamics import Rules
from hanabi_rl.launch import data_challenge as challenges
from hanabi_rl.launch import pretrained_clone as pretraining
from hanabi_rl.launch.data_challenge import (
    Challenge,
    challenge_table,
    cloning_epochs,
    run_challenge,
)
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.play import demos
from hanabi_rl.play.demos import demo_games, demonstrators, generate

SHORT = Challenge("simple", games=24, heldout_games=8, methods=("bc",), eval_games=64, seed=3)


def test_epochs_grow_with_fewer_games() -> None:
    assert [cloning_epochs(games) for games in (10, 180, 1000, 2000, 100_000)] == [
        60,
        60,
        48,
        24,
        6,
    ]


def test_methods_use_games_and_budget(tmp_path: Path) -> None:
    challenge = dataclasses.replace(
        SHORT, total_steps=12_345, kl_weight=0.2, features="hint-history"
    )
    configs: dict[str, Any] = {
        name: challenges._config(name, challenge, tmp_path) for name in challenges.METHODS
    }
    assert configs["bc"].data == (str(tmp_path / "games.safetensors"),)
    assert configs["bc"].val == () and configs["bc"].epochs == cloning_epochs(24)
    assert not hasattr(configs["ippo"], "bc_policy")
    for name in ("hdr_ippo", "br_bc"):
        assert configs[name].bc_policy == str(tmp_path / "bc")
    assert configs["hdr_ippo"].kl_weight == 0.2
    for name in ("hdr_ippo", "br_bc", "ippo"):
        assert configs[name].total_steps == 12_345
    for name in ("bc", "br_bc", "ippo"):
        assert configs[name].network.features == "hint-history"
    assert all(config.seed == 3 for config in configs.values())
    quick = preset_config("br_bc", "quick")
    for name in ("anneal_start", "anneal_end"):
        fraction = getattr(quick, name) / quick.total_steps
        assert getattr(configs["br_bc"], name) == int(12_345 * fraction)


@pytest.mark.parametrize(
    ("methods", "trained"),
    [
        ((), []),
        (("ippo",), ["ippo"]),
        (("hdr_ippo",), ["bc", "hdr_ippo"]),
        (("ippo", "br_bc", "bc"), ["bc", "br_bc", "ippo"]),
    ],
)
def test_clone_is_trained_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[str, ...], trained: list[str]
) -> None:
    monkeypatch.setattr(challenges, "_method", lambda name, *_: {"method": name})
    monkeypatch.setattr(challenges, "_proxy_self_play", lambda *_: {"mean": 1.0})
    record = run_challenge(dataclasses.replace(SHORT, methods=methods), tmp_path)
    assert [row["method"] for row in record["methods"]] == trained
    saved = json.loads((tmp_path / "challenge.json").read_text())
    assert saved["partner"] == "simple" and saved["methods"] == record["methods"]


def test_mixed_partner_gives_several_proxies() -> None:
    """AH2AC2's protocol has several proxies: for A+B both, or the named ones."""

    def names(**changes: Any) -> list[str]:
        challenge = dataclasses.replace(SHORT, **changes)
        found = challenges.proxies_of(challenge, Rules(num_players=challenge.players))
        assert [policy.name for policy in found.values()] == [  # type: ignore[attr-defined]
            name.removeprefix("bot:") for name in found
        ]
        return list(found)

    assert names() == ["simple"]
    assert names(partner="simple+piers", players=3) == ["simple", "piers"]
    assert names(partner="simple+simple") == ["simple"]
    assert names(proxies=("bot:piers", "bot:iggi")) == ["bot:piers", "bot:iggi"]


def test_search_partner_is_one_player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one player per partner model."""
    partner = "agent:ippo-2p?search=fast&partner_model=bot:holmes+bot:iggi"
    monkeypatch.setattr(demos, "load_policy", lambda name, rules: load_policy("bot:simple", rules))
    challenge = dataclasses.replace(SHORT, partner=partner)
    assert list(challenges.proxies_of(challenge, Rules())) == [partner]
    row = {"mean": 1.0, "ci95": (0, 2), "median": 1.0, "zero_rate": 0.0}
    own = row | {"cross_entropy_per_timestep": 1.0}
    record = dataclasses.asdict(challenge) | {"pretrain": None, "methods": []}
    lines = challenge_table(record | {"partner_self_play": own}).splitlines()
    assert f"24 games of {partner}," in lines[0] and f"games with {partner} over" in lines[0]
    assert lines[-1].startswith("the proxy ")
    preset = dataclasses.replace(
        preset_config("bc", "pretrain"), demos=("bot:iggi", partner, f"bot:smart+{partner}")
    )
    monkeypatch.setattr(pretraining, "preset_config", lambda *_: preset)
    monkeypatch.setattr(pretraining, "run_once", lambda *_: None)
    monkeypatch.setattr(pretraining, "load_policy", lambda *_: load_policy("bot:simple"))
    found = pretraining.train_pretrained_clone(partner, Rules(), "facts", tmp_path)
    assert (found.players, found.excluded_families) == (("bot:iggi",), ("self-play RL",))
    found = pretraining.train_pretrained_clone("bot:iggi", Rules(), "facts", tmp_path)
    assert found.players == (partner, f"bot:smart+{partner}")


@pytest.mark.slow  # the games are those of evaluation/measure/test_leaderboard.py
def test_row_covers_leaderboard_lineups() -> None:
    """--eval-games is the total number of games, not decks times seatings."""
    challenge = dataclasses.replace(SHORT, eval_games=40)
    agent, *others = (network_policy(TINY, seed) for seed in range(3))
    proxies = dict(zip(("one", "other"), others, strict=True))
    held_out = teacher_games(TINY, 4)
    row = challenges._evaluate(agent, challenge, held_out, proxies)
    with_proxies = row["with_proxies"]
    assert with_proxies["games"] == 40 and len(with_proxies["lineups"]) == 4
    expected = play_leaderboard(agent, list(proxies.values()), 40, 3)
    assert with_proxies["mean"] == expected.summary.mean.mean
    assert with_proxies["points_mean"] == expected.points.mean() > 0
    assert with_proxies["median"] == np.median(expected.score)
    own = challenges._proxy_self_play(challenge, proxies, held_out)
    assert [line["seats"] for line in own["lineups"]] == [["one"] * 2, ["other"] * 2]
    assert json.loads(json.dumps([row, own]))[0]["cross_entropy"] == row["cross_entropy"], (
        "the record is JSON"
    )
    assert row["cross_entropy"] / 2 == pytest.approx(with_proxies["cross_entropy_per_timestep"])


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Games passed to prediction; nothing is trained or played."""
    requests: list[Any] = []

    def method(name: str, challenge: Any, folder: Any, held_out: Any, *_: Any) -> dict[str, Any]:
        requests.append(held_out)
        return {"method": name, "row": len(requests)}

    monkeypatch.setattr(challenges, "_method", method)
    monkeypatch.setattr(challenges, "_proxy_self_play", lambda *_: {"mean": 1.0})
    return requests


def test_seeds_have_separate_games(tmp_path: Path, predicted: list[Any]) -> None:
    trained_on = []
    for seed in (0, 1, 2):
        run_challenge(dataclasses.replace(SHORT, seed=seed), tmp_path / str(seed))
        trained_on.append(load_games(tmp_path / str(seed) / "games.safetensors"))
    drawn = [deck.tobytes() for games in (*trained_on, *predicted) for deck in games.decks]
    assert len(drawn) == 3 * (24 + 8) == len(set(drawn))


def test_later_calls_add_rows(tmp_path: Path, predicted: list[Any]) -> None:
    def methods(*names: str) -> list[tuple[str, int]]:
        record = run_challenge(dataclasses.replace(SHORT, methods=names), tmp_path)
        assert json.loads((tmp_path / "challenge.json").read_text())["methods"] == record["methods"]
        return [(row["method"], row["row"]) for row in record["methods"]]

    assert methods("ippo") == [("ippo", 1)]
    assert methods("br_bc") == [("bc", 2), ("br_bc", 3), ("ippo", 1)]
    assert methods("ippo", "hdr_ippo") == [("bc", 4), ("hdr_ippo", 5), ("br_bc", 3), ("ippo", 6)]


def test_changed_partner_is_another_challenge(
    tmp_path: Path, predicted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is a folder, which may be retrained."""
    run_challenge(SHORT, tmp_path / "c")
    other = SimpleNamespace(identity=lambda: "another")
    monkeypatch.setattr(challenges, "demonstrators", lambda *_: (other, other))
    with pytest.raises(ValueError, match="holds a challenge with another partner_hashes"):
        run_challenge(SHORT, tmp_path / "c")
    monkeypatch.undo()
    monkeypatch.setattr(challenges, "proxies_of", lambda *_: {"bot:x": other})
    with pytest.raises(ValueError, match="holds a challenge with another proxy_hashes"):
        run_challenge(SHORT, tmp_path / "c")


def test_pretrained_clone_excludes_partner_family(
    tmp_path: Path, predicted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One clone for all challenges with such partners; the table names it, and cloning starts from
    it."""
    pool = (
        "bot:simple",
        "bot:holmes",
        "bot:iggi",
        "agent:ippo-2p",
        "bot:rules?seed=0..1",
        "agent:x",
    )
    preset = dataclasses.replace(preset_config("bc", "pretrain"), demos=pool)
    monkeypatch.setattr(pretraining, "preset_config", lambda *_: preset)
    trained: list[Any] = []
    monkeypatch.setattr(pretraining, "run_once", lambda _, config: trained.append(config))
    policy = SimpleNamespace(identity=lambda: "a prior")
    monkeypatch.setattr(pretraining, "load_policy", lambda *_: policy)
    configs: list[Any] = []
    monkeypatch.setattr(
        challenges,
        "_method",
        lambda name, _, config, *rest: configs.append(config) or {"method": name},
    )
    record = run_challenge(
        dataclasses.replace(SHORT, pretrain=True, features="hint-history"), tmp_path / "c"
    )
    (config,) = trained
    assert config.demos == ("bot:iggi", "agent:ippo-2p", "bot:rules?seed=0", "bot:rules?seed=1")
    assert config.run_dir == str(tmp_path / "prior-2p-hint-history-without-simple")
    assert (config.network.features, config.seed, configs[0].init_from) == (
        "hint-history",
        0,
        config.run_dir,
    )
    scores = {"mean": 1.0, "ci95": (0, 2), "median": 1.0, "zero_rate": 0.0}
    own = scores | {"cross_entropy_per_timestep": 1.0}
    table = challenge_table(record | {"methods": [], "partner_self_play": own})
    assert (
        f"cloning starts from {config.run_dir}, a clone of 400 games each of bot:iggi, "
        "agent:ippo-2p, bot:rules?seed=0, bot:rules?seed=1; excluded families: simple"
    ) in table.splitlines()
    assert record["pretrain"]["identity"] == "a prior"
    with pytest.raises(ValueError, match="another pretrain: expected True, got False"):
        run_challenge(dataclasses.replace(SHORT, features="hint-history"), tmp_path / "c")
    rules = Rules(num_players=3)
    found = pretraining.train_pretrained_clone("rules?seed=7+agent:y", rules, "facts", tmp_path)
    assert found.players == ("bot:simple", "bot:holmes", "bot:iggi")
    assert found.excluded_families == ("rule family",)
    assert "excluded families: none" in str(
        pretraining.train_pretrained_clone("random", rules, "facts", tmp_path)
    )


def test_pretraining_needs_other_families(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = dataclasses.replace(preset_config("bc", "pretrain"), demos=("bot:convention",))
    monkeypatch.setattr(pretraining, "preset_config", lambda *_: preset)
    with pytest.raises(ValueError, match="--pretrain: expected players of other families"):
        pretraining.train_pretrained_clone("simple", Rules(), "conventions", tmp_path)


@pytest.mark.slow
def test_clone_plays_with_partner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = run_challenge(SHORT, tmp_path / "c")
    capsys.readouterr()
    (row,) = record["methods"]
    policy, partner = load_policy(row["run_dir"]), load_policy("bot:simple")
    expected = play_leaderboard(policy, [partner], 64, 3).summary
    assert row["with_proxies"]["mean"] == pytest.approx(expected.mean.mean)
    assert row["with_proxies"]["games"] == 64  # both seatings, each in half of the games
    train = load_games(tmp_path / "c" / "games.safetensors")
    held_out = demo_games(train.rules, "simple", 8, 3, "held-out")
    decks = {deck.tobytes() for deck in train.decks}
    assert len(train) == 24 and not decks & {deck.tobytes() for deck in held_out.decks}
    assert 0 < row["accuracy"] < 1 and row["cross_entropy"] > 0
    assert record["partner_self_play"]["mean"] > 14
    assert "score with proxies" in challenge_table(record)
    with pytest.raises(ValueError, match="another games: expected 24, got 25"):
        run_challenge(dataclasses.replace(SHORT, games=25), tmp_path / "c")
    again = run_challenge(SHORT, tmp_path / "c")  # finished runs are not repeated
    assert again == record


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"games": 4},
            "--games: expected a whole number from 5 to .*, got 4",
        ),  # the clone validates on some
        ({"eval_games": 0}, "--eval-games: expected a whole number from 1 to .*, got 0"),
        ({"kl_weight": 1.5}, "--kl-weight: expected a number from 0 to 1, got 1.5"),
        (
            {"features": "all"},
            "--features: expected one of 'facts', 'hint-history', 'conventions', 'hint-outcomes', "
            "got 'all'",
        ),
        ({"methods": ("sad",)}, "--methods: expected some of bc, hdr_ippo, br_bc, ippo, got sad"),
        (
            {"partner": "convention", "features": "conventions"},
            "expected facts or hint-history for a clone of",
        ),
    ],
)
def test_invalid_challenges_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SHORT, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"proxies": ("bot:x",)}, "bot:x"),
        ({"agents": ("bot:x",)}, "bot:x"),
        ({"agents": ("bot:simple",)}, "--agents bot:simple: expected a proxy other than the cand"),
        ({"proxies": ("bot:iggi", "bot:iggi")}, "--proxies: expected policies that differ"),
        ({"partner": "simple+bot:simple"}, "--proxies: expected policies that differ"),
        (
            {"players": 3, "partner": "simple+piers", "eval_games": 17},
            "each of the 18 lineups",
        ),
    ],
)
def test_unplayable_challenge_fails_before_writing(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run_challenge(dataclasses.replace(SHORT, **changes), tmp_path / "c")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_other_agents_add_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        challenges, "_method", lambda name, *arguments: {"method": name} | challenges._evaluate(
            load_policy("bot:iggi"), arguments[0], *arguments[2:]
        )
    )  # fmt: skip
    other = dataclasses.replace(SHORT, eval_games=8, agents=("bot:legal-random",))
    text = challenge_table(run_challenge(other, tmp_path)).splitlines()
    assert [line.split()[0] for line in text[2:]] == ["bc", "bot:legal-random", "the"]
    assert "median" in text[1] and "per timestep" in text[1]
    assert "8 games with simple over all lineups" in text[0]
    more = run_challenge(dataclasses.replace(other, agents=("bot:iggi",)), tmp_path)
    assert [row["method"] for row in more["agents"]] == ["bot:legal-random", "bot:iggi"]


def test_unknown_partner_is_one_line_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["challenge", "--partner", "nobody", "--out", str(tmp_path / "x")])
    assert "bot:simple" in capsys.readouterr().err


@pytest.mark.slow
def test_mixed_partners_alternate_seats() -> None:
    """Each move is the greedy one of its seat's bot."""
    games = generate(Rules(3), "simple+value", 6, seed=0)
    first, second, third = demonstrators(games.rules, "simple+value")
    assert first is third
    turns = np.arange(games.actions.shape[1])
    played = turns < games.num_actions[:, None]
    # index in the lineup of the current player's seat
    position = (turns % 3 - np.arange(6)[:, None]) % 3
    for policy, mine in ((first, position != 1), (second, position == 1)):
        guess = predict_decisions(policy, games).guess
        assert (guess == games.actions)[played & mine].all()
    assert (predict_decisions(first, games).guess != games.actions)[played & (position == 1)].any()
    with pytest.raises(ValueError, match="expected at most 2 agents, got 3"):
        demonstrators(Rules(2), "simple+value+smart")
