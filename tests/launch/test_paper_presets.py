"""Presets of AH2AC2's experiments against the tables of the paper, and of its public code."""

from pathlib import Path
from typing import Any

import pytest
from support import ah2ac2_training as paper
from support.ah2ac2_training import NOT_LEGIBLE, TEXT, Hyperparameters

from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.algorithms.best_response import BestResponseConfig
from hanabi_rl.algorithms.br_bc import BRBCConfig
from hanabi_rl.algorithms.hdr_ippo import HDRIPPOConfig
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.algorithms.other_play import OtherPlayConfig
from hanabi_rl.games.hanabi.dynamics import Rules
from hanabi_rl.launch.presets import load_preset
from hanabi_rl.launch.sweep_config import parse_sweep
from hanabi_rl.storage.dataclass_io import to_dict

CONFIGS = Path(__file__).parents[2] / "configs"
CLASSES: dict[str, Any] = {
    "bc": BCConfig,
    "hdr_ippo": HDRIPPOConfig,
    "br_bc": BRBCConfig,
    "ippo": IPPOConfig,
    "other_play": OtherPlayConfig,
    "best_response": BestResponseConfig,
}
CLONES = {
    name: table
    for table in (paper.TABLE_8, paper.TABLE_11, paper.TABLE_14, paper.TABLE_15)
    for name in table.columns
}

NETWORK = {
    "LSTM Layers": "network.lstm",
    "Input Embedding": "network.embedding",
    "Decoder MLP": "network.decoder",
}
BC = {
    "Batch Size": "batch_size",
    "Dropout": "network.dropout",
    "Initial LR": "lr",
    "Final LR": "final_lr",
    "Epochs": "epochs",
    "Permute Colours": "permute_colors",
    "Self-Play Eval Games": "selfplay_games",
}
PPO = {
    "Learning Rate": "lr",
    "Gamma Discount": "gamma",
    "GAE Lambda": "gae_lambda",
    "Clip Epsilon": "clip_eps",
    "Entropy Coefficient": "entropy_coef",
    "Value Function Coeff": "value_coef",
    "Max Gradient Norm": "max_grad_norm",
    "Update Epochs": "epochs",
    "Num Minibatches": "num_minibatches",
    "BC Policy KL Weight": "kl_weight",
    "Total Timesteps": "total_steps",
    "Num Env Steps": "num_steps",
    "Num Train Envs": "num_envs",
    "Num Eval Envs": "eval_games",
    "BC Anneal Start": "anneal_start",
    "BC Anneal End": "anneal_end",
}
LEGIBLE_OR_OURS = {"entropy_coef": 1e-4}


def leaves(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        nested = isinstance(value, dict)
        flat |= leaves(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value}
    return flat


def resolved(algorithm: str, name: str) -> dict[str, Any]:
    return leaves(to_dict(load_preset(CLASSES[algorithm], algorithm, name, CONFIGS)))


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def of_rows(rows: dict[str, Any], fields: dict[str, str], prefix: str = "") -> dict[str, Any]:
    """Field -> value of printed rows; all rows must have known fields."""
    found = {}
    for row, value in rows.items():
        field = fields[row]
        found[f"{prefix}{field}"] = LEGIBLE_OR_OURS[field] if value is NOT_LEGIBLE else plain(value)
    return found


def clone_fields(name: str, prefix: str = "") -> dict[str, Any]:
    """Fields of a clone in the tables."""
    table = CLONES[name]
    network = table.column("network", name)
    assert network.pop("Activation") == "GELU"
    network.pop("Num Players")
    rows = table.column("bc", name)
    assert rows.pop("LR Schedule") == "Linear"  # this package has no other
    fields = of_rows(network, NETWORK, prefix) | of_rows(rows, BC, prefix)
    fields |= {f"{prefix}network.activation": "gelu", f"{prefix}network.critic": [512]}
    return fields | {f"{prefix}weight_decay": TEXT["bc.weight_decay"][0]}


def ppo_fields(table: Hyperparameters, name: str, critic: str) -> dict[str, Any]:
    rows = table.column("ippo", name)
    schedule = {True: "linear", False: "constant"}[rows.pop("Linear Schedule", False)]
    return {critic: plain(rows.pop("Critic MLP")), "lr_schedule": schedule} | of_rows(rows, PPO)


def expected(algorithm: str, name: str, players: int, *overrides: dict[str, Any]) -> dict[str, Any]:
    """All fields: defaults, with the paper's values."""
    fields = leaves(to_dict(CLASSES[algorithm]()))
    fields |= leaves({"game": to_dict(Rules(num_players=players))}) | {"preset": name}
    for more in overrides:
        assert set(more) <= set(fields), set(more) - set(fields)
        fields |= more
    return fields


def players_of(table: Hyperparameters, name: str) -> int:
    return int(table.column("network", name)["Num Players"])


@pytest.mark.parametrize("name", CLONES)
def test_bc_presets_match_paper_tables(name: str) -> None:
    found = resolved("bc", name)
    assert found == expected("bc", name, players_of(CLONES[name], name), clone_fields(name))
    assert found["weight_decay"] == 0.0, "Adam, not AdamW"


@pytest.mark.parametrize("name", CLONES)
def test_hdr_ippo_presets_match_paper_tables(name: str) -> None:
    table = CLONES[name]
    text = {"bc_select": TEXT["bc_select"][0]}
    if name == "ablation":
        text["report_policy"] = TEXT["ablation.report_policy"][0]
    fields = clone_fields(name, "bc."), ppo_fields(table, name, "bc.network.critic"), text
    found = resolved("hdr_ippo", name)
    assert found == expected("hdr_ippo", name, players_of(table, name), *fields)
    if name == "3p-1k":  # by hand
        assert (found["kl_weight"], found["lr_schedule"], found["total_steps"]) == (
            0.25,
            "linear",
            10**10,
        )
        assert (found["bc.batch_size"], found["bc.epochs"], found["bc.final_lr"]) == (128, 50, 1e-4)


def feed_forward(name: str) -> dict[str, Any]:
    rows = paper.TABLE_16.column("network", name)
    assert rows["Activation"] == "RELU"
    shared, head = rows["MLP"]
    return {
        "network.activation": "relu",
        "network.embedding": [shared],
        "network.decoder": [head],
        "network.lstm": [],
    }


@pytest.mark.parametrize("algorithm", ["ippo", "other_play"])
@pytest.mark.parametrize("name", paper.TABLE_16.columns)
def test_baselines_without_data_match_table_16(algorithm: str, name: str) -> None:
    fields = feed_forward(name), ppo_fields(paper.TABLE_16, name, "network.critic")
    players = players_of(paper.TABLE_16, name)
    assert resolved(algorithm, name) == expected(algorithm, name, players, *fields)


@pytest.mark.parametrize("data", ["1k", "5k"])
@pytest.mark.parametrize("players", ["2p", "3p"])
def test_br_bc_presets_match_table_16(players: str, data: str) -> None:
    name, table = f"{players}-{data}", paper.TABLE_16
    text = {"bc_select": TEXT["bc_select"][0]}
    if players == "3p":
        text["lineup"] = TEXT["lineup"][0]
    fields = (
        clone_fields(name, "bc."),
        feed_forward(players),
        ppo_fields(table, players, "network.critic"),
        of_rows(table.column("br_bc", players), PPO),
        text,
    )
    assert resolved("br_bc", name) == expected("br_bc", name, players_of(table, players), *fields)


def test_bc_grid_matches_table_9() -> None:
    _, base, points = parse_sweep(CONFIGS, "quick", ["--sweep", "bc-grid"])
    fields = NETWORK | BC
    grid = {
        fields[row]: [plain(value) for value in values] for row, values in paper.TABLE_9.items()
    }
    found: dict[str, list[Any]] = {}
    for point in points:
        for field, value in point.values.items():
            if (value := plain(value)) not in found.setdefault(field, []):
                found[field].append(value)
    assert found == grid and len(points) == 144
    assert base.weight_decay == 0.0


# differences of the public code (training/*.py and its config/*.yaml) from the paper, by hand
_CODE_CLONE_2P = {"batch_size": 128, "epochs": 50, "weight_decay": 1e-4}
_CODE_CLONE_3P = {"batch_size": 256, "weight_decay": 1e-4}
_CODE_HDR = {"bc_select": "accuracy", "td_error": "as-published", "eval_every": 1}
PUBLISHED: dict[tuple[str, str], dict[str, Any]] = {
    ("bc", "2p-1k"): _CODE_CLONE_2P,
    ("bc", "3p-1k"): _CODE_CLONE_3P,
    ("hdr_ippo", "2p-1k"): _CODE_HDR | {f"bc.{k}": v for k, v in _CODE_CLONE_2P.items()},
    ("hdr_ippo", "3p-1k"): _CODE_HDR
    | {"num_envs": 512}
    | {f"bc.{k}": v for k, v in _CODE_CLONE_3P.items()},
    ("br_bc", "2p-1k"): {"bc_select": "accuracy"}
    | {f"bc.{k}": v for k, v in _CODE_CLONE_2P.items()},
    ("br_bc", "3p-1k"): {"bc_select": "accuracy", "lineup": "all-or-none"}
    | {f"bc.{k}": v for k, v in _CODE_CLONE_3P.items()},
}


@pytest.mark.parametrize(("algorithm", "name"), PUBLISHED)
def test_published_code_presets_match_public_code(algorithm: str, name: str) -> None:
    papers, code = resolved(algorithm, name), resolved(algorithm, f"{name}-ah2ac2-code")
    changed = {field: code[field] for field in papers if code[field] != papers[field]}
    assert changed == PUBLISHED[algorithm, name] | {"preset": f"{name}-ah2ac2-code"}


def test_published_code_presets_are_all_tested() -> None:
    there = {
        (path.parent.name, path.stem.removesuffix("-ah2ac2-code"))
        for path in CONFIGS.glob("*/*-ah2ac2-code.toml")
    }
    assert there == set(PUBLISHED)


# values that ippo_ff_2p.yaml, ippo_ff_hanabi.yaml, ippo_rnn_hanabi.yaml, br_bc_lstm_2p.yaml and
# fcp_2p.yaml share, by hand from fd43b45 of FLAIROx/ah2ac2 and c793d09 of FLAIROx/JaxMARL
_SHARED = {"lr": 5e-4, "num_envs": 1024, "num_steps": 128, "total_steps": 10**10, "epochs": 4}
_SHARED |= {"num_minibatches": 4, "gamma": 0.99, "gae_lambda": 0.95, "clip_eps": 0.2}
_SHARED |= {"entropy_coef": 0.01, "value_coef": 0.5, "max_grad_norm": 0.5}
_SHARED |= {"network.activation": "relu", "network.layer_norm": False, "network.dropout": 0.0}
_SHARED |= {"clip_value": True, "report_policy": "final"}
_WIDTHS = ("embedding", "gru", "decoder", "critic")  # fc_dim_size, gru_hidden_dim
_GRU = {"lr_schedule": "linear", **{f"network.{name}": [128] for name in _WIDTHS}}
_FEED_FORWARD = {f"network.{name}": [512] for name in ("embedding", "decoder", "critic")}
_FEED_FORWARD |= {"lr_schedule": "constant", "network.lstm": [], "eval_every": 10_000}


@pytest.mark.parametrize(
    ("algorithm", "name", "values"),
    [
        ("ippo", "as-published", _FEED_FORWARD),
        ("ippo", "as-published-gru", _GRU),
        ("br_bc", "as-published-gru", {"anneal_start": 10**9, "anneal_end": 6 * 10**9} | _GRU),
        ("best_response", "as-published", {"partner_prob": 1.0, "rematch_prob": 0.0} | _GRU),
    ],
)
def test_as_published_presets_match_public_code(
    algorithm: str, name: str, values: dict[str, Any]
) -> None:
    found = resolved(algorithm, name)
    assert {field: found[field] for field in _SHARED | values} == _SHARED | values
