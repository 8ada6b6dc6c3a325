"""Configs: dictionaries and back, presets, command line."""

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanabi_rl.algorithms.any_play import AnyPlayConfig
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.algorithms.behaviour_preferring import BehaviourPreferringConfig
from hanabi_rl.algorithms.best_response import BestResponseConfig
from hanabi_rl.algorithms.br_bc import BRBCConfig
from hanabi_rl.algorithms.cole import COLEConfig
from hanabi_rl.algorithms.e3t import E3TConfig
from hanabi_rl.algorithms.hdr_ippo import HDRIPPOConfig
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.mappo import MAPPOConfig
from hanabi_rl.algorithms.mep import MEPConfig
from hanabi_rl.algorithms.obl import OBLConfig
from hanabi_rl.algorithms.ppo_runner import PPORunConfig
from hanabi_rl.algorithms.q_learning import QRunConfig
from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.algorithms.trajedi import TrajeDiConfig
from hanabi_rl.games.hanabi.dynamics import Rules
from hanabi_rl.games.registry import GAMES, game_class
from hanabi_rl.launch.cli_args import parse_args
from hanabi_rl.launch.presets import load_preset, preset_config
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.rewards import GameShaping, HanabiShaping
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.runs.config import with_game
from hanabi_rl.runs.run_dir import write_config
from hanabi_rl.storage.dataclass_io import from_dict, to_dict
from hanabi_rl.storage.validation import Range, _number

CONFIGS = Path(__file__).parents[2] / "configs"
CLASSES: dict[str, Any] = {
    "bc": BCConfig,
    "hdr_ippo": HDRIPPOConfig,
    "ippo": IPPOConfig,
    "mappo": MAPPOConfig,
    "iql": QRunConfig,
    "vdn": QRunConfig,
    "sad": QRunConfig,
    "other_play": IPPOConfig,
    "br_bc": BRBCConfig,
    "best_response": BestResponseConfig,
    "behaviour_preferring": BehaviourPreferringConfig,
    "e3t": E3TConfig,
    "mep": MEPConfig,
    "trajedi": TrajeDiConfig,
    "cole": COLEConfig,
    "any_play": AnyPlayConfig,
    "obl": OBLConfig,
}
PRESETS = [
    (path.parent.name, path.stem)
    for path in sorted(CONFIGS.glob("*/*.toml"))
    if path.parent.name in CLASSES
]

widths = st.lists(st.integers(1, 2048), min_size=1, max_size=3).map(tuple)
rates = st.floats(1e-8, 1.0, allow_nan=False)
games = st.builds(Rules, num_players=st.integers(2, 5), hand_size=st.none() | st.integers(1, 5))
networks = st.builds(
    NetworkConfig, embedding=widths, lstm=widths, decoder=widths, dropout=st.floats(0, 0.99)
)
files = st.lists(st.text(max_size=5), max_size=2).map(tuple)
training = {"data": files, "network": networks, "batch_size": st.integers(1, 512), "lr": rates}
running = {
    "game": games,
    "seeds": st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple),
    "run_dir": st.none() | st.text(),
}
schedules = st.sampled_from(["linear", "cosine", "constant"])
optimising = {
    "total_steps": st.integers(1, 10**11),
    "entropy_coef": rates,
    "final_entropy_coef": st.none() | rates,
    "lr_schedule": schedules,
}
cloning = st.builds(BCTrainConfig, **training)
configs = st.one_of(
    games,
    networks,
    cloning,
    st.builds(BCConfig, **training, **running),
    st.builds(PPORunConfig, **optimising, **running),
    st.builds(
        BRBCConfig,
        **optimising,
        **running,
        network=networks,
        bc=cloning,
        anneal_start=st.integers(0, 10**9),
    ),
    st.builds(HDRIPPOConfig, **optimising, **running, kl_weight=st.floats(0, 1), bc=cloning),
)


@settings(max_examples=30, deadline=None)  # the machine may be busy
@given(configs)
def test_config_round_trips_through_json(config: Any) -> None:
    assert from_dict(type(config), to_dict(config)) == config
    again = from_dict(type(config), json.loads(json.dumps(to_dict(config))))
    assert again == config and hash(again) == hash(config)


def test_missing_fields_use_defaults() -> None:
    config = from_dict(
        HDRIPPOConfig, {"kl_weight": 1, "bc": {"epochs": 3.0}, "game": {"num_players": 3}}
    )
    assert config == HDRIPPOConfig(
        kl_weight=1.0, bc=BCTrainConfig(epochs=3), game=Rules(num_players=3)
    )
    assert isinstance(config.kl_weight, float) and isinstance(config.bc.epochs, int)
    assert from_dict(PPOConfig, {"total_steps": 1e10}).total_steps == 10**10
    assert from_dict(BCConfig, {"epochs": 2}, default=BCConfig(lr=0.5)) == BCConfig(
        lr=0.5, epochs=2
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kl_wieght": 0.5}, r"^config: unknown field 'kl_wieght'; expected one of .*kl_weight"),
        (
            {"bc": {"network": {"width": 3}}},
            r"^config\.bc\.network: unknown field 'width'; expected one of act",
        ),
        ({"kl_weight": "high"}, r"^config\.kl_weight: expected float, got 'high'"),
        ({"num_envs": 2.5}, r"^config\.num_envs: expected int, got 2\.5"),
        ({"num_envs": True}, r"^config\.num_envs: expected int, got True"),
        ({"tensorboard": 1}, r"^config\.tensorboard: expected bool, got 1"),
        ({"seeds": [0, "x"]}, r"^config\.seeds\[1\]: expected int, got 'x'"),
        (
            {"lr_schedule": "step"},
            r"^config\.lr_schedule: expected one of 'linear', 'cosine', 'constant', got 'step'",
        ),
        ({"game": 3}, r"^config\.game: expected Rules, got 3"),
        ({"bc": {"data": "games.safetensors"}}, r"^config\.bc\.data: expected tuple, got 'games"),
        ({"bc_policy": 3}, r"^config\.bc_policy: expected str, got 3"),
        ({"run_dir": None, "seed": None}, r"^config\.seed: expected int, got None"),
        ({"lr": 10**400}, r"^config\.lr: expected a number, got one too large"),
        (
            {"total_steps": 10**400},
            r"^config\.total_steps: expected a whole number from 1 .*, got 10",
        ),
        ({"bc": {"network": {"kind": [1]}}}, r"^config\.bc\.network\.kind: expected .*, got \[1\]"),
    ],
)
def test_config_errors_name_path(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_dict(HDRIPPOConfig, data)


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (PPOConfig, {"num_envs": 100}, "num_envs=100 must be divisible by num_shuffle_blocks=8"),
        (
            PPOConfig,
            {"num_envs": 8, "num_minibatches": 4},
            "num_envs / num_shuffle_blocks [*] num_players=2 must be divisible by "
            "num_minibatches=4",
        ),
        (PPOConfig, {"num_steps": 0}, "--num-steps: expected a whole number from 1 to .*, got 0"),
        (HDRIPPOConfig, {"kl_weight": 1.5}, "--kl-weight: expected a number from 0 to 1, got 1.5"),
        (BCConfig, {"batch_size": 0}, "--batch-size: expected a whole number from 1 to .*, got 0"),
        (IPPOConfig, {"entropy_coef": -5.0}, "--entropy-coef: expected a number from 0 .*, got -5"),
        (
            IPPOConfig,
            {"lr_schedule": "step"},
            "--lr-schedule: expected one of 'linear', 'cosine', 'constant', got 'step'",
        ),
        (IPPOConfig, {"final_lr": 0.1}, "final_lr: expected 0 with a constant learning rate, got"),
        (PPOConfig, {"final_entropy_coef": -1.0}, "--final-entropy-coef: expected a number from 0"),
        (PPOConfig, {"final_clip_eps": 0.0}, "--final-clip-eps: expected a number above 0"),
        (HDRIPPOConfig, {"final_kl_weight": 2.0}, "--final-kl-weight: expected a number from 0 to"),
        (
            HanabiShaping,
            {"shaping_anneal_start": 0.5, "shaping_anneal_end": 0.4},
            "expected 0 <= shaping_anneal_start <= shaping_anneal_end <= 1, got 0.5, 0.4",
        ),
        (HanabiShaping, {"life_cost": -1.0}, "--life-cost: expected a number from 0 to .*, got -1"),
        (
            OBLConfig,
            {"shaping": GameShaping()},
            "--shaping: expected HanabiShaping, got Game",
        ),
        (
            OBLConfig,
            {"shaping": HanabiShaping(g2_weight=-1.0)},
            "--g1-weight, --g2-weight, --g3-weight: expected none in off-belief learning",
        ),
        (
            OBLConfig,
            {"shaping": HanabiShaping(teaming_weight=0.3)},
            "--teaming-weight: expected none in off-belief learning, .* got 0.3",
        ),
        (IPPOConfig, {"clip_value": "no"}, "--clip-value: expected True or False, got 'no'"),
        (IPPOConfig, {"gamma": None}, "--gamma: expected a number, got None"),
        (IPPOConfig, {"lr": "0.1"}, "--lr: expected a number, got '0.1'"),
        (IPPOConfig, {"num_envs": np.int64(0)}, "--num-envs: expected .* from 1 to .*, got 0"),
        (IPPOConfig, {"lr": np.float32("nan")}, "--lr: expected a number from 0 .*, got nan"),
        (IPPOConfig, {"num_envs": "8"}, "--num-envs: expected a whole number, got '8'"),
        (
            IPPOConfig,
            {"num_minibatches": True},
            "--num-minibatches: expected a whole number, got T",
        ),
        (IPPOConfig, {"game": "x"}, "--game: expected Rules or Game, got 'x'"),
        (IPPOConfig, {"preset": 3}, "--preset: expected str or None, got 3"),
        (BCConfig, {"data": ("a", 3)}, r"--data: expected a tuple of str, got \('a', 3\)"),
        (BCConfig, {"data": "a"}, "--data: expected a tuple of str, got 'a'"),
    ],
)
def test_invalid_values_are_rejected(cls: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**fields)


def test_flags_of_shaping_follow_its_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def parsed(*args: str) -> IPPOConfig:
        return parse_args(IPPOConfig, "ippo", CONFIGS, "quick", args)

    changed = parsed("--no-keep-points", "--shaping_anneal_end", "0.5").shaping
    assert changed == HanabiShaping(life_cost=0.5, shaping_anneal_end=0.5)
    path = tmp_path / "mine.toml"
    path.write_text('[game]\nname = "overcooked"\n[shaping]\nkind = "game"\n')
    config = parsed("--preset", str(path), "--lr", "0.1")
    assert config.shaping == GameShaping() and from_dict(IPPOConfig, to_dict(config)) == config
    with pytest.raises(SystemExit):
        parsed("--preset", str(path), "--life-cost", "1")
    assert "--life-cost" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parsed("--preset", str(path), "--help")
    shown = capsys.readouterr().out
    assert "--lr " in shown and "--kind" not in shown and "--life-cost" not in shown
    with pytest.raises(ValueError, match=r"^--life-cost: expected a number from 0 to .*, got -1$"):
        parsed("--life-cost", "-1")
    with pytest.raises(ValueError, match=r"shaping_anneal_end <= 1, got 0.5, 0.25$"):
        parsed("--shaping-anneal-start", "0.5", "--shaping-anneal-end", "0.25")


@pytest.mark.parametrize("cls", CLASSES.values())
def test_redeclared_field_keeps_range(cls: Any) -> None:
    """Or narrows it."""
    hints = get_type_hints(cls, include_extras=True)
    for base in filter(dataclasses.is_dataclass, cls.__mro__[1:]):
        for name, hint in get_type_hints(base, include_extras=True).items():
            if number := _number(hint):
                kind, narrow = _number(hints[name]) or (None, Range())
                assert kind is number[0], name
                assert narrow.low >= number[1].low and narrow.high <= number[1].high, name


def game_of(*args: str) -> Rules:
    return parse(*args).game


def test_default_hand_follows_players_and_ranks() -> None:
    """From a flag, a preset or a dictionary."""
    four = Rules(num_players=4, hand_size=4)
    assert game_of("--num-players", "4") == game_of("--num-players=4") == four
    assert from_dict(HDRIPPOConfig, {"game": {"num_players": 4}}).game == four
    assert game_of("--num-players", "4", "--hand-size", "5").hand_size == 5
    three_ranks = game_of("--num-ranks", "3")
    assert (three_ranks.num_cards_of_rank, three_ranks.hand_size) == ((3, 2, 1), 5)
    own = game_of("--num-cards-of-rank", "2", "1", "--num-ranks", "2", "--hand-size", "2")
    assert own == Rules(num_ranks=2, num_cards_of_rank=(2, 1), hand_size=2)
    assert from_dict(Rules, {"num_players": 5}, default=own) == Rules(
        num_players=5, num_ranks=2, num_cards_of_rank=(2, 1), hand_size=2
    )
    assert from_dict(Rules, {"num_players": 4, "hand_size": None}) == four


def test_undealable_rules_are_rejected() -> None:
    with pytest.raises(ValueError, match="num_players must be 2 to 5, got 7"):
        game_of("--num-players", "7")
    with pytest.raises(ValueError, match=r"num_cards_of_rank must have 5 entries .*got \(3, 1\)"):
        game_of("--num-cards-of-rank", "3", "1")


def test_config_without_card_counts_loads() -> None:
    old = {"num_players": 2, "num_colors": 5, "num_ranks": 3, "hand_size": None}
    old |= {"max_info_tokens": 4, "max_life_tokens": 1}
    game = from_dict(HDRIPPOConfig, {"game": old}).game
    assert game == Rules(num_ranks=3, max_info_tokens=4, max_life_tokens=1)
    assert game.num_cards_of_rank == (3, 2, 1)


def test_num_updates_is_at_least_one() -> None:
    assert PPOConfig(num_envs=64, num_steps=10, total_steps=6_399).num_updates == 9
    assert PPOConfig(num_envs=64, num_steps=10, total_steps=1).num_updates == 1


def leaves(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        flat |= (
            leaves(value, f"{prefix}{name}.")
            if isinstance(value, dict)
            else {f"{prefix}{name}": value}
        )
    return flat


@pytest.mark.parametrize(("algo", "name"), PRESETS)
def test_presets_list_only_commented_differences(algo: str, name: str) -> None:
    cls = CLASSES[algo]
    config = load_preset(cls, algo, name, CONFIGS)
    assert config.preset == name
    assert from_dict(cls, to_dict(config)) == config
    text = (CONFIGS / algo / f"{name}.toml").read_text()
    assert text.startswith("# "), "a preset says why it is as it is"
    table = tomllib.loads(text)
    extended = table.pop("extends", None)
    base = cls()
    if extended is not None:
        other, _, named = extended.rpartition("/")
        base = load_preset(CLASSES[other or algo], other or algo, named, CONFIGS)
    # the default of the preset's kind of network, shaping and game
    kinds = {
        field: type(value)()
        for field in ("network", "shaping", "game")
        if type(value := getattr(config, field, None)) is not type(getattr(base, field, None))
    }
    resolved = leaves(to_dict(config))
    default = leaves(to_dict(cls())) | leaves(to_dict(dataclasses.replace(base, **kinds)))
    for field in leaves(table):
        if field == "bc":
            assert config.bc != getattr(base, field, cls().bc), "bc names the default preset"
        else:
            chosen = field in ("network.kind", "shaping.kind", "game.name")
            differs = chosen or resolved[field] != default[field]
            assert differs, f"{field} = {resolved[field]} is the default, or {extended} has it"
    minutes = (
        name in ("quick-lstm", "hour-lstm", "small", "one-rank", *GAMES)
        or algo in ("sad", "any_play")  # no structured networks
        or "structured" in resolved.values()
    )
    if not minutes:
        halved = (algo, name) == ("hdr_ippo", "3p-1k-ah2ac2-code")  # as in the public code
        assert resolved.get("num_envs", 1024) == (512 if halved else 1024)


def test_hdr_ippo_preset_names_bc_preset() -> None:
    presets = (CONFIGS / "hdr_ippo").glob("*.toml")
    named = {path.stem: tomllib.loads(path.read_text()).get("bc", path.stem) for path in presets}
    for name in named:
        assert named[name] == name or name == "hour-lstm", "its own, or one that it says why"
        hdr, bc = (
            load_preset(HDRIPPOConfig, "hdr_ippo", name, CONFIGS),
            load_preset(BCConfig, "bc", named[name], CONFIGS),
        )
        assert hdr.bc == BCTrainConfig(
            **{f.name: getattr(bc, f.name) for f in dataclasses.fields(BCTrainConfig)}
        )
        assert hdr.game == bc.game


def test_data_sets_game_unless_configured() -> None:
    three = Rules(num_players=3)
    assert with_game(BCConfig(), three, "the games").game == three
    assert with_game(BCConfig(game=three), three, "the games").game == three
    four = BCConfig(game=Rules(num_players=4))
    message = "expected 3 players, the game of the games, got 4 players$"
    with pytest.raises(ValueError, match=f"^--num-players: {message}"):
        with_game(four, three, "the games")
    with pytest.raises(ValueError, match=f"^--num-players or --preset 4p: {message}"):
        with_game(dataclasses.replace(four, preset="4p"), three, "the games")


NUMBERED = [
    (algorithm, path.stem)
    for algorithm in ALGORITHMS
    for path in sorted((CONFIGS / algorithm).glob("*.toml"))
    if {"2p", "3p"} & set(path.stem.split("-"))
]


def test_preset_rejects_other_player_count() -> None:
    assert len(NUMBERED) > 25
    for algorithm, name in NUMBERED:
        config = preset_config(algorithm, name)
        players = int(next(part for part in name.split("-") if part in ("2p", "3p"))[0])
        assert config.game.num_players == players
        game = config.game.replace(num_players=5 - players)
        with pytest.raises(ValueError, match=rf"--preset {name}: expected . players"):
            with_game(config, game, "its data")
        assert with_game(config, config.game, "its data") == config
        meant = dataclasses.replace(config, game=game)  # by --num-players
        assert with_game(meant, game, "its data") == meant
    own = dataclasses.replace(BCConfig(), preset="mine/2p-own.toml")
    message = (
        "^--preset mine/2p-own.toml: expected 2 players, as in the preset's name, got 4, as in the "
        "game of the clone; choose another preset, or add --num-players 4 to use this preset for 4 "
        "players$"
    )
    with pytest.raises(ValueError, match=message):
        with_game(own, Rules(num_players=4), "the clone")


def test_preset_can_be_any_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('bc = "quick"\nkl_weight = 0.4\n')
    config = load_preset(HDRIPPOConfig, "hdr_ippo", str(path), CONFIGS)
    assert (
        config.kl_weight == 0.4
        and config.bc == load_preset(HDRIPPOConfig, "hdr_ippo", "quick", CONFIGS).bc
    )
    path.write_text("kl_weigth = 0.4\n")
    with pytest.raises(ValueError, match=f"^{path}: unknown field 'kl_weigth'"):
        load_preset(HDRIPPOConfig, "hdr_ippo", str(path), CONFIGS)
    path.write_text("kl_weight 0.4\n")
    with pytest.raises(ValueError, match=r"mine\.toml: expected TOML: "):
        load_preset(HDRIPPOConfig, "hdr_ippo", str(path), CONFIGS)
    with pytest.raises(FileNotFoundError, match=r"--preset quik: no file .*presets of bc: .*quick"):
        load_preset(BCConfig, "bc", "quik", CONFIGS)


def test_preset_extends_another(tmp_path: Path) -> None:
    """What a preset says, what the one that it extends says, then the defaults: also by table."""
    (tmp_path / "base.toml").write_text(
        'extends = "ippo/quick"\nlr = 0.5\ngamma = 0.5\n[shaping]\nlife_cost = 0.25\n'
    )
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "base.toml"\ngamma = 0.75\n[network]\nfeatures = "conventions"\n')
    quick = load_preset(IPPOConfig, "ippo", "quick", CONFIGS)
    assert isinstance(quick.network, StructuredConfig)
    assert isinstance(quick.shaping, HanabiShaping) and quick.shaping.keep_points
    expected = dataclasses.replace(
        quick,
        preset=str(mine),
        lr=0.5,
        gamma=0.75,
        shaping=dataclasses.replace(quick.shaping, life_cost=0.25),
        network=dataclasses.replace(quick.network, features="conventions"),
    )
    assert load_preset(IPPOConfig, "ippo", str(mine), CONFIGS) == expected
    # a name without an algorithm is of the algorithm that is run
    mine.write_text('extends = "small"\n')
    for algorithm, cls in (("br_bc", CLASSES["br_bc"]), ("ippo", IPPOConfig)):
        small = load_preset(cls, algorithm, "small", CONFIGS)
        own = load_preset(cls, algorithm, str(mine), CONFIGS)
        assert own == dataclasses.replace(small, preset=str(mine))


def test_dots_in_a_list_stand_for_the_extended_list(tmp_path: Path) -> None:
    base, mine = tmp_path / "base.toml", tmp_path / "mine.toml"

    def partners(text: str) -> tuple[str, ...]:
        mine.write_text(text)
        return load_preset(BestResponseConfig, "best_response", str(mine), CONFIGS).partners

    base.write_text('extends = "quick"\npartners = ["bot:iggi", "bot:smart"]\n')
    start = 'extends = "base.toml"\n'
    assert partners(start) == ("bot:iggi", "bot:smart")
    assert partners(f'{start}partners = ["bot:piers"]\n') == ("bot:piers",)
    added = ("bot:outer", "bot:iggi", "bot:smart", "bot:piers")
    assert partners(f'{start}partners = ["bot:outer", "...", "bot:piers"]\n') == added
    doubled = partners(f'{start}partners = ["...", "bot:outer", "..."]\n')
    assert doubled == ("bot:iggi", "bot:smart", "bot:outer", "bot:iggi", "bot:smart")
    mine.write_text(f'{start}partners = ["bot:outer", "...", "bot:piers"]\n')
    mine.rename(tmp_path / "second.toml")
    third = partners('extends = "second.toml"\npartners = ["...", "bot:iggi"]\n')
    assert third == (*added, "bot:iggi")
    with pytest.raises(ValueError, match="in the extended preset, which has none") as error:
        partners('partners = ["...", "bot:iggi"]\n')
    assert str(error.value).startswith(f"{mine}.partners: ")


def test_table_of_another_kind_is_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "ippo/small"\n[network]\nkind = "structured"\n')
    config = load_preset(IPPOConfig, "ippo", str(mine), CONFIGS)
    assert config.network == StructuredConfig()
    mine.write_text('extends = "ippo/small"\n[game]\nname = "overcooked"\n')
    assert load_preset(IPPOConfig, "ippo", str(mine), CONFIGS).game == game_class("overcooked")()


@pytest.mark.parametrize(("algo", "name"), PRESETS)
def test_every_preset_can_be_extended(tmp_path: Path, algo: str, name: str) -> None:
    """Its number of players, which is in its name alone, too."""
    mine = tmp_path / "mine.toml"
    mine.write_text(f'extends = "{algo}/{name}"\n')
    expected = load_preset(CLASSES[algo], algo, name, CONFIGS)
    found = load_preset(CLASSES[algo], algo, str(mine), CONFIGS)
    assert found == dataclasses.replace(expected, preset=str(mine))


def test_own_number_of_players_is_stronger_than_an_extended_one(tmp_path: Path) -> None:
    mine = tmp_path / "2p-mine.toml"
    mine.write_text('extends = "ippo/3p"\n')
    assert load_preset(IPPOConfig, "ippo", str(mine), CONFIGS).game == Rules(num_players=2)
    mine.write_text('extends = "ippo/3p"\n[game]\nnum_players = 4\n')
    assert load_preset(IPPOConfig, "ippo", str(mine), CONFIGS).game == Rules(num_players=4)


def test_clone_of_an_extended_preset(tmp_path: Path) -> None:
    """Fields change the extended preset's clone; the name of another preset replaces it."""
    mine = tmp_path / "mine.toml"
    quick = load_preset(HDRIPPOConfig, "hdr_ippo", "quick", CONFIGS).bc
    mine.write_text('extends = "quick"\n[bc]\nepochs = 3\n')
    changed = load_preset(HDRIPPOConfig, "hdr_ippo", str(mine), CONFIGS).bc
    assert changed == dataclasses.replace(quick, epochs=3)
    (tmp_path / "base.toml").write_text('extends = "quick"\n[bc]\nweight_decay = 0.5\n')
    mine.write_text('extends = "base.toml"\nbc = "quick"\n')
    assert load_preset(HDRIPPOConfig, "hdr_ippo", str(mine), CONFIGS).bc == quick


def test_extends_errors(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.toml", tmp_path / "other.toml"

    def refused(text: str, error: type[Exception] = ValueError) -> str:
        mine.write_text(text)
        with pytest.raises(error) as caught:
            load_preset(IPPOConfig, "ippo", str(mine), CONFIGS)
        return str(caught.value)

    assert refused("extends = 3\n") == f"{mine}.extends: expected a preset's name, got 3"
    found = refused('extends = "quik"\n', FileNotFoundError)
    assert found.startswith(f"{mine}: extends quik: no file ") and "did you mean quick?" in found
    other.write_text('extends = "mine.toml"\n')
    circle = f"{mine}: extends, bc: expected no circle, got {mine} -> {other} -> {mine}"
    assert refused('extends = "other.toml"\n') == circle
    assert "expected no circle" in refused(f'bc = "{mine}"\n')
    found = refused('extends = "nosuch/quick"\n', FileNotFoundError)
    assert found.startswith(f"{mine}: extends nosuch/quick: no file ")
    # an extended preset's field that this algorithm lacks
    found = refused('extends = "hdr_ippo/quick"\n')
    assert "unknown field 'bc'" in found and found.endswith(f" ({mine} extends hdr_ippo/quick)")


def test_preset_error_shows_file_and_digits(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("gamma = 1.0000001\n")
    message = f"^{path}.gamma: expected a number from 0 to 1, got 1.0000001$"
    with pytest.raises(ValueError, match=message):
        load_preset(IPPOConfig, "ippo", str(path), CONFIGS)


def test_preset_expands_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "mine.toml"
    path.write_text('run_dir = "~/run"\n[bc]\ndata = ["~/a.safetensors"]\n')
    config = load_preset(HDRIPPOConfig, "hdr_ippo", str(path), CONFIGS)
    assert config.run_dir == f"{tmp_path}/run" and config.bc.data == (f"{tmp_path}/a.safetensors",)


def parse(*args: str) -> HDRIPPOConfig:
    return parse_args(HDRIPPOConfig, "hdr_ippo", CONFIGS, "quick-lstm", args)


def test_flags_accept_underscores() -> None:
    """tyro accepts both, so flags read before it must too: a standard hand of four players has 4
    cards."""
    assert parse("--num_players", "4") == parse("--num-players", "4") == parse("--num_players=4")
    assert parse("--num_players", "4").game == Rules(num_players=4)
    with pytest.raises(ValueError, match="config.json, got no-run"):
        parse("--resume", "--run_dir", "no-run")


def test_seed_and_seeds_are_exclusive() -> None:
    """One of them would be ignored silently."""
    assert parse("--seed", "1").seed == 1 and parse("--seeds", "1", "2").seeds == (1, 2)
    for seeds in (("--seed", "1", "--seeds", "2"), ("--seeds=2", "--seed=1")):
        with pytest.raises(ValueError, match=r"--seed, --seeds: expected one of the two, got both"):
            parse(*seeds)


@pytest.mark.parametrize("flag", ["--bc.data", "--bc.val", "--partners", "--seeds"])
def test_list_flag_needs_a_value(flag: str) -> None:
    """`--bc.data $DATA` with an unset variable cloned a bot instead."""
    for args in ([flag], [flag, "--lr", "1"], ["--lr=1", flag]):
        with pytest.raises(ValueError, match=rf"^{flag}: expected one value or more, got none$"):
            parse(*args)


def test_flags_override_preset() -> None:
    quick, ablation = (
        load_preset(HDRIPPOConfig, "hdr_ippo", name, CONFIGS) for name in ("quick-lstm", "ablation")
    )
    assert parse() == quick
    assert parse("--preset", "ablation") == parse("--preset=ablation") == ablation
    # the last occurrence counts, for presets too, as after an alias with one
    assert parse("--preset", "ablation", "--preset=quick-lstm", "--seed=1", "--seed", "0") == quick
    parsed = parse(
        *(
            "--kl-weight",
            "0.5",
            "--total-steps",
            "1e10",
            "--bc.epochs",
            "3",
            "--bc.network.lstm",
            "8",
            "9",
        ),
        *(
            "--num-players",
            "3",
            "--seeds",
            "0",
            "1",
            "2",
            "--bc.data",
            "a.json",
            "--no-tensorboard",
        ),
    )
    network = dataclasses.replace(quick.bc.network, lstm=(8, 9))
    expected = dataclasses.replace(
        quick,
        kl_weight=0.5,
        total_steps=10**10,
        bc=dataclasses.replace(quick.bc, epochs=3, network=network, data=("a.json",)),
        game=Rules(num_players=3),
        seeds=(0, 1, 2),
        tensorboard=False,
    )
    assert parsed == expected


def test_unknown_flags_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse("--kl-wieght", "0.5")
    assert stop.value.code == 2 and "kl-wieght" in capsys.readouterr().err


@pytest.fixture
def stored_run(tmp_path: Path) -> tuple[str, HDRIPPOConfig]:
    config = parse("--kl-weight", "0.5", "--run-dir", str(tmp_path), "--bc.epochs", "3")
    write_config(tmp_path, to_dict(config), algorithm="hdr_ippo", seed=config.seed)
    return str(tmp_path), config


def test_resume_uses_saved_config(stored_run: tuple[str, HDRIPPOConfig]) -> None:
    folder, config = stored_run
    assert parse("--resume", "--run-dir", folder) == dataclasses.replace(config, resume=True)
    longer = parse(
        "--resume",
        f"--run-dir={folder}",
        "--total-steps",
        "2e6",
        "--log-every",
        "5",
        "--kl-weight",
        "0.5",
    )
    assert longer == dataclasses.replace(config, resume=True, total_steps=2_000_000, log_every=5)


def test_resume_rejects_changed_computation(
    stored_run: tuple[str, HDRIPPOConfig], tmp_path: Path
) -> None:
    folder, _ = stored_run
    with pytest.raises(
        ValueError,
        match=r"--resume: expected the run's config, .*kl_weight: the run has 0.5, got 0.25",
    ):
        parse("--resume", "--run-dir", folder, "--kl-weight", "0.25")
    with pytest.raises(ValueError, match=r"bc\.network\.lstm: the run has \[128\], got \[64\]"):
        parse("--resume", "--run-dir", folder, "--bc.network.lstm", "64")
    with pytest.raises(
        ValueError, match="--resume: expected the run's folder in --run-dir, got none"
    ):
        parse("--resume")
    with pytest.raises(
        ValueError, match=r"expected a run folder with a config\.json, got .*nowhere"
    ):
        parse("--resume", "--run-dir", str(tmp_path / "nowhere"))
