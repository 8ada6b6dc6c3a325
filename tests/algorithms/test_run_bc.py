"""Complete BC run: files, and equality of interrupted and uninterrupted runs."""

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.compiled import init_params
from support.fixtures import CLONE
from support.games import TINY, as_games, teacher_games
from support.policies import network_policy
from support.runs import RUN_FILES, read_lines, read_state

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms import bc
from hanabi_rl.algorithms.bc import MIN_TRAIN_GAMES, announce_pool, run_bc, training_games
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.algorithms.init_from import load_initial_params
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import rotated_decks
from hanabi_rl.games.hanabi.dynamics import Rules
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.launch.sweep import run_once
from hanabi_rl.learning.cloning import BC, BCTrainConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.play.demos import generate
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.storage.dataclass_io import from_dict

MINIBATCHES = 15  # of 3 epochs


def without(records: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in record.items() if key != name} for record in records]


def test_run_writes_expected_files(bc_run: Any, bc_config: Any) -> None:
    folder, summary = bc_run
    names = {path.name for path in folder.iterdir()}
    assert names == RUN_FILES | {"input_hashes.json", "policy", "policy-accuracy", "policy-loss"}
    assert (folder / "learning-curve.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((folder / "summary.json").read_text()) == {
        **json.loads(json.dumps(summary)),
        "format_version": 1,
    }
    config = from_dict(BCConfig, json.loads((folder / "config.json").read_text())["config"])
    game = TINY
    assert config == bc_config(run_dir=str(folder), tensorboard=True, game=game)  # the data's game


def test_summary_evaluates_saved_policies(bc_run: Any) -> None:
    _, summary = bc_run
    assert (summary["num_players"], summary["eval_games"]) == (2, 1000)
    for policy in ("policy", "policy_accuracy", "policy_loss"):
        for number in (
            "selfplay_mean",
            "selfplay_points_mean",
            "val_accuracy",
            "val_loss",
            "val_loss_per_timestep",
        ):
            assert isinstance(summary[f"{policy}_{number}"], float), number
        for interval in (
            "selfplay_ci95",
            "selfplay_points_ci95",
            "val_accuracy_ci95",
            "val_loss_ci95",
        ):
            low, high = summary[f"{policy}_{interval}"]
            middle = summary.get(f"{policy}_{interval}".replace("_ci95", "_mean"))
            middle = (
                summary[f"{policy}_{interval}".removesuffix("_ci95")] if middle is None else middle
            )
            assert low <= middle <= high
        per_timestep = summary[f"{policy}_val_loss"] / 2  # half the seat-timesteps are idle
        assert summary[f"{policy}_val_loss_per_timestep"] == pytest.approx(per_timestep, rel=1e-6)


def test_metrics_have_one_line_per_epoch(bc_run: Any) -> None:
    lines = read_lines(bc_run[0])
    assert [(line["step"], line["epoch"]) for line in lines] == [(5, 1), (10, 2), (15, 3)]
    assert ["selfplay_mean" in line for line in lines] == [
        False,
        True,
        True,
    ]  # every second epoch, and the last
    assert lines[-1]["learning_rate"] == pytest.approx(1e-4, rel=1e-5)
    assert lines[-1]["train_loss"] < lines[0]["train_loss"]


def test_saved_policies_are_best(bc_run: Any) -> None:
    folder, lines = bc_run[0], read_lines(bc_run[0])
    most_accurate: Any = load_policy(folder / "policy-accuracy")
    best = max(lines, key=lambda line: line["val_accuracy"])
    assert (most_accurate.info.steps, most_accurate.info.score) == (
        best["step"],
        best["val_accuracy"],
    )
    likeliest: Any = load_policy(folder / "policy-loss")
    best = min(lines, key=lambda line: line["val_loss"])
    assert (likeliest.info.steps, likeliest.info.score) == (best["step"], best["val_loss"])
    strongest: Any = load_policy(folder / "policy")
    best = max(
        (ln for ln in lines if "selfplay_mean" in ln),
        key=lambda ln: (ln["selfplay_mean"], ln["val_accuracy"]),
    )
    assert (strongest.info.steps, strongest.info.score) == (best["step"], best["selfplay_mean"])
    assert isinstance(load_policy(folder / "checkpoints" / str(MINIBATCHES)), NetworkPolicy)


# in the middle of the first epoch, and at the end of the second
@pytest.mark.parametrize("stop", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_interrupted_run_matches_uninterrupted(
    stop: int,
    bc_run: Any,
    bc_config: Any,
    interrupt_at: Any,
    tmp_path: Path,
) -> None:
    interrupt_at("hanabi_rl.algorithms.bc_training", stop)
    config: BCConfig = bc_config(run_dir=str(tmp_path / "run"))
    with pytest.raises(RunStopped, match="continue with --resume --run-dir") as stopped:
        run_bc(config)
    assert stopped.value.exit_code == 130
    folder = tmp_path / "run"
    assert read_state(folder, stop) and not (folder / "summary.json").exists()

    summary = run_bc(bc_config(run_dir=str(folder), resume=True))
    assert read_state(folder, MINIBATCHES) == read_state(bc_run[0], MINIBATCHES)
    assert without(read_lines(folder), "wall_s") == without(read_lines(bc_run[0]), "wall_s")
    assert without([summary], "run_dir") == without([bc_run[1]], "run_dir")


def test_finished_run_is_not_repeated(bc_run: Any, bc_config: Any, tmp_path: Path) -> None:
    folder, before = tmp_path / "run", read_lines(bc_run[0])
    shutil.copytree(bc_run[0], folder)
    (folder / "summary.json").unlink()
    again = run_bc(bc_config(run_dir=str(folder), resume=True, tensorboard=True))
    assert without([again], "run_dir") == without([bc_run[1]], "run_dir")
    assert read_lines(folder) == before and (folder / "summary.json").exists()


def test_report_links_games_of_best_selfplay(
    training: BCTrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three policies; losses that are not finite are null in the metrics."""
    for number, name in enumerate(bc.KEPT_POLICIES):
        save_policy(
            tmp_path / name, network_policy(TINY, number), algorithm="bc", steps=1, score=None
        )
    linked: list[Any] = []
    monkeypatch.setattr(bc, "link_lines", lambda played: linked.append(played) or [])
    config = BCConfig(**(vars(training) | {"report_games": 8}))
    validation = load_games(training.val[0])
    for losses, expected in (([None, 1.5, 2.0], 1.5), ([None], None)):
        lines = [{"val_loss": loss} for loss in losses]
        monkeypatch.setattr(bc, "read_metrics", lambda _, lines=lines: lines)
        assert bc.report(config, tmp_path, validation)["min_val_loss"] == expected
    best = bc.clone_selfplay(network_policy(TINY, 0), 8, config.seed)
    assert linked == [best, best]


def test_resume_rejects_other_games(
    bc_run: Any, bc_config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the same names; for generated games, the agents are compared."""
    folder = tmp_path / "run"
    shutil.copytree(bc_run[0], folder)
    config: BCConfig = bc_config(run_dir=str(folder), resume=True)
    train, validation = training_games(config, config.game, config.seed)
    of_game = dataclasses.replace(config, game=train.rules)
    named = dataclasses.replace(train, players=np.zeros((len(train), 2), np.int32))
    less = slice(1, None)
    for flag, names, games in (
        ("--data", config.data, (train.select(less), validation)),
        ("--data", config.data, (named, validation)),
        ("--val", config.val, (train, validation.select(less))),
    ):
        monkeypatch.setattr(bc, "training_games", lambda *source, games=games: games)
        with pytest.raises(
            ValueError, match=f"{flag} {' '.join(names)}: expected the run's original"
        ):
            run_bc(config)
        with pytest.raises(
            ValueError, match=f"{folder}: {flag} {' '.join(names)}: expected the run's original"
        ):
            run_once("bc", of_game)
    monkeypatch.undo()
    assert run_once("bc", of_game) == json.loads((folder / "summary.json").read_text())
    generated = dataclasses.replace(config, data=(), val=(), demos=("iggi", "rules?seed=0..1"))
    names = [f"--demos {name}" for name in ("iggi", "rules?seed=0", "rules?seed=1")]
    found = bc.ALGORITHM.input_hashes(generated)
    assert list(found) == names and len(set(found.values())) == 3
    started = dataclasses.replace(generated, init_from="agent:clone-2p")
    pretrained = {"--init-from agent:clone-2p": load_policy("agent:clone-2p").identity()}
    assert bc.ALGORITHM.input_hashes(started) == found | pretrained


def test_default_validation_is_a_tenth(training: BCTrainConfig) -> None:
    rules = load_games(training.data[0]).rules
    config = BCTrainConfig(data=training.data)
    train, validation = training_games(config, rules, seed=0)
    assert (len(train), len(validation)) == (36, 4)
    assert {bytes(deck) for deck in train.decks}.isdisjoint(
        bytes(deck) for deck in validation.decks
    )


def test_too_few_games_to_validate_are_rejected(training: BCTrainConfig, tmp_path: Path) -> None:
    games, path = load_games(training.data[0]), str(tmp_path / "few.safetensors")
    config = BCTrainConfig(data=(path,))
    save_games(path, games.select(range(MIN_TRAIN_GAMES)))
    assert [len(part) for part in training_games(config, games.rules, seed=0)] == [4, 1]
    save_games(path, games.select(range(MIN_TRAIN_GAMES - 1)))
    for flag, source in (("--data", config), ("--demo-games", BCTrainConfig(demo_games=4))):
        message = f"{flag}: expected at least 5 games, or --val with others, got 4"
        with pytest.raises(ValueError, match=message):
            training_games(source, games.rules, seed=0)
    with_val = dataclasses.replace(config, val=training.val)
    assert len(training_games(with_val, games.rules, seed=0)[0]) == 4


def test_too_few_decks_to_validate_are_rejected(training: BCTrainConfig, tmp_path: Path) -> None:
    games, path = load_games(training.data[0]), str(tmp_path / "one.safetensors")
    save_games(path, games.select([0] * MIN_TRAIN_GAMES))
    message = (
        "--data: expected games of enough decks to hold out a tenth by deck, or --val with others, "
        f"got 5 games of 1 in {path}"
    )
    config = BCTrainConfig(data=(path,))
    with pytest.raises(ValueError, match=re.escape(message)):
        training_games(config, games.rules, seed=0)
    with_val = dataclasses.replace(config, val=training.val)
    assert len(training_games(with_val, games.rules, seed=0)[0]) == 5


def test_validation_games_are_unique_and_disjoint(training: BCTrainConfig) -> None:
    rules = load_games(training.data[0]).rules
    for val, message in (
        (training.val * 2, "duplicate of game 0 of "),
        (training.data, "--val: expected games not in --data, got 40 of them"),
    ):
        with pytest.raises(ValueError, match=message):
            training_games(BCTrainConfig(data=training.data, val=val), rules, seed=0)


def test_validation_games_on_cloned_decks_are_counted(
    training: BCTrainConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With any starting seat: another game on a rotation of a cloned deck is not held out."""
    games = load_games(training.data[0])
    rules, path = games.rules, str(tmp_path / "val.safetensors")
    training_games(training, rules, seed=0)
    assert "on decks of" not in capsys.readouterr().err
    fresh = load_games(training.val[0])
    play = np.array([rules.hand_size], np.int32)  # the oldest card
    decks = [rotated_decks(rules, games.decks[:1])[0, 1], games.decks[1], fresh.decks[0]]
    tables = [PythonGame(rules, deck) for deck in decks]
    for table in tables:
        table.apply(int(play[0]))
    save_games(path, as_games(rules, tables, [play] * 3))
    training_games(dataclasses.replace(training, val=(path,)), rules, seed=0)
    assert "--val: 2 of 3 games are on decks of --data" in capsys.readouterr().err


def test_games_without_human_seats_fail_early(training: BCTrainConfig, tmp_path: Path) -> None:
    """Files with `human_seats` and no human seat."""
    games, path = load_games(training.data[0]), str(tmp_path / "bots.safetensors")
    save_games(path, dataclasses.replace(games, human_seats=np.zeros((len(games), 2), bool)))
    for change, message in (
        ({"data": (path,)}, "--data: expected games with a human seat, got none"),
        ({"data": training.val, "val": (path,)}, "--val: expected games with a human seat, got n"),
    ):
        with pytest.raises(ValueError, match=message):
            training_games(BCTrainConfig(**change), games.rules, seed=0)


def test_validation_games_of_other_rules_are_rejected(
    training: BCTrainConfig, tmp_path: Path
) -> None:
    other = tmp_path / "other.safetensors"
    save_games(
        other, teacher_games(Rules(num_players=2, num_colors=3, num_ranks=3, hand_size=2), 2)
    )
    with pytest.raises(ValueError, match="--val: expected games of 2 colours, .*, got 3 colours"):
        training_games(
            BCTrainConfig(data=training.data, val=(str(other),)),
            load_games(training.data[0]).rules,
            seed=0,
        )


@pytest.mark.slow  # the next test compares only the initial parameters
@pytest.mark.parametrize(
    "network",
    [CLONE, StructuredConfig(trunk=(8,), head=8, card=(8,))],
    ids=lambda network: network.kind,
)
def test_clone_starts_from_init_agent(
    network: NetworkConfig | StructuredConfig, bc_config: Any, tmp_path: Path
) -> None:
    """With a learning rate of 0 it still is that agent at the end. Dropout and critic are
    training's own."""
    theirs = dataclasses.replace(network, dropout=0.2, critic=(4,))
    first = NetworkPolicy(init_params(TINY, theirs, jax.random.key(5)), TINY, theirs)
    save_policy(tmp_path / "agent", first, algorithm="bc", steps=0, score=None)
    same = {"lr": 0.0, "final_lr": 0.0, "weight_decay": 0.0, "epochs": 1, "network": network}
    start = str(tmp_path / "agent")
    run_bc(bc_config(run_dir=str(tmp_path / "run"), init_from=start, **same))
    saved: Any = load_policy(tmp_path / "run")
    jax.tree.map(np.testing.assert_array_equal, saved.params, first.params)


def test_structured_clone_starts_from_init_agent(tmp_path: Path) -> None:
    """With any dropout in training."""
    network = StructuredConfig(trunk=(8,), head=8, card=(8,))
    first = NetworkPolicy(init_params(TINY, network, jax.random.key(5)), TINY, network)
    save_policy(tmp_path / "agent", first, algorithm="bc", steps=0, score=None)
    drops = dataclasses.replace(network, dropout=0.2, critic=(4,))
    learner = BC(BCConfig(network=drops), TINY, 10)
    params = load_initial_params(str(tmp_path / "agent"), drops, TINY)
    state = jax.jit(learner.init)(jax.random.key(0), params)
    jax.tree.map(np.testing.assert_array_equal, learner.policy(state).params, first.params)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("bot:random", "--init-from bot:random: expected a trained network, got RandomBot"),
        ("agent:ippo-2p", "expected an agent for 2 colours"),
        (
            "{other}",
            r"trained, NetworkConfig\(embedding=.*, got NetworkConfig\(embedding=\(8,\)",
        ),
        ("{told}", r"NetworkConfig\(.*, got StructuredConfig\(features='facts', profile=True"),
    ],
)
def test_init_agent_of_other_network_is_rejected(
    start: str, message: str, bc_config: Any, tmp_path: Path
) -> None:
    """The failed start leaves no files."""
    told = StructuredConfig(trunk=(8,), head=8, card=(8,), profile=True)
    agents = {
        "other": network_policy(TINY, 0),
        "told": NetworkPolicy(init_params(TINY, told, jax.random.key(0)), TINY, told),
    }
    for name, agent in agents.items():
        save_policy(tmp_path / name, agent, algorithm="bc", steps=0, score=None)
    start = start.format(**{name: tmp_path / name for name in agents})
    with pytest.raises(ValueError, match=message):
        run_bc(bc_config(run_dir=str(tmp_path / "run"), init_from=start))
    assert not (tmp_path / "run").exists()


def test_human_presets_start_from_bundled_pretrained() -> None:
    """Or from scratch, with a comment that states the reason."""
    rules, pretrained = Rules(num_players=3), "agent:pretrained-3p"
    for preset in ("3p-human", "3p-human-hint-history"):
        config: Any = preset_config("bc", preset)
        assert config.init_from == pretrained
        load_initial_params(pretrained, config.network, rules)
    facts = dataclasses.replace(config.network, features="facts")
    said = "--init-from agent:pretrained-3p: .*expected {}.*--init-from None: random"
    with pytest.raises(
        ValueError, match=said.format(".*features='hint-history'.*got .*features='facts'")
    ):
        load_initial_params(pretrained, facts, rules)
    with pytest.raises(
        ValueError, match=said.format("an agent for 2 players, got one for 3 players")
    ):
        load_initial_params(pretrained, config.network, Rules())


def test_demo_games_of_all_agents_are_cloned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HANABI_RL_CACHE", str(tmp_path))
    config = BCTrainConfig(demos=("random", "bot:rules?seed=0..1"), demo_games=10)
    announce_pool(config)
    games = training_games(config, TINY, seed=0)
    played = {content for part in games for content in part.content_keys()}
    each = [
        generate(TINY, name, 10, 0) for name in ("random", "bot:rules?seed=0", "bot:rules?seed=1")
    ]
    assert played == {content for part in each for content in part.content_keys()}
    players = np.concatenate([part.players for part in games])
    assert (players[:, 0] == players[:, 1]).all() and len(np.unique(players)) == 3
    assert (
        "10 games of each of random, bot:rules?seed=0, bot:rules?seed=1" in capsys.readouterr().err
    )
