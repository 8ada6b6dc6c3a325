"""Hyperparameters printed in the AH2AC2 paper: Tables 8, 9, 11, 14, 15 and 16, and its text.

A row has one value for all columns, or a `PerColumn`. `TEXT`: values found only in the text.
"""

from typing import Any, NamedTuple


class Hyperparameters(NamedTuple):
    """One table of hyperparameters as printed; `bc`, `ippo` and so on are its parts."""

    columns: tuple[str, ...]
    """Preset of each column, in the preset folder of each algorithm that the column describes."""
    network: dict[str, Any]
    bc: dict[str, Any]
    ippo: dict[str, Any]
    br_bc: dict[str, Any] | None = None

    def column(self, part: str, name: str) -> dict[str, Any]:
        """Rows of a part, row -> value, in the column `name`."""
        place, rows = self.columns.index(name), getattr(self, part) or {}
        return {
            row: value[place] if isinstance(value, PerColumn) else value
            for row, value in rows.items()
        }


class PerColumn(tuple[Any, ...]):
    """One value per column; NOT_LEGIBLE where the available text of the paper has none."""


NOT_LEGIBLE = None


def _each(*values: Any) -> PerColumn:
    return PerColumn(values)


_PPO = {
    "Gamma Discount": 0.99,
    "GAE Lambda": 0.95,
    "Clip Epsilon": 0.2,
    "Value Function Coeff": 0.5,
    "Max Gradient Norm": 0.5,
    "Update Epochs": 4,
    "Num Minibatches": 4,
    "Critic MLP": (512,),
}
_ENVIRONMENTS = {"Num Env Steps": 128, "Num Train Envs": 1024}
_BC = {"LR Schedule": "Linear", "Permute Colours": True, "Self-Play Eval Games": 5000}

TABLE_8 = Hyperparameters(
    ("hp1", "hp2", "hp3", "hp4"),
    network={
        "Num Players": _each(2, 2, 3, 3),
        "Activation": "GELU",
        "LSTM Layers": _each((512, 512, 512), (512, 512), (512, 512, 512), (512, 512)),
        "Input Embedding": (1024,),
        "Decoder MLP": _each((512,), (256,), (1024,), (1024,)),
    },
    bc=_BC
    | {
        "Batch Size": _each(256, 256, 128, 256),
        "Dropout": _each(0.5, 0.3, 0.5, 0.5),
        "Initial LR": 0.005,
        "Final LR": _each(5e-5, 5e-5, 1e-5, 1e-5),
        "Epochs": _each(50, 50, 70, 70),
    },
    ippo=_PPO
    | {
        "Learning Rate": _each(3e-4, 3e-4, 5e-4, 3e-4),
        "Entropy Coefficient": _each(1e-5, NOT_LEGIBLE, NOT_LEGIBLE, 1e-4),
        "BC Policy KL Weight": _each(0.3, 0.2, 0.1, 0.15),
        "Total Timesteps": 5e9,
        "Num Env Steps": 90,
        "Num Train Envs": 1024,
        "Num Eval Envs": 512,
    },
)
"""Human proxies and the clones before them."""

TABLE_9: dict[str, tuple[Any, ...]] = {
    "Dropout": (0.3, 0.5),
    "Batch Size": (64, 128, 256),
    "LSTM Layers": ((512, 512), (512, 512, 512), (1024, 1024), (1024, 1024, 1024)),
    "Input Embedding": ((512,), (1024,), (512, 512)),
    "Decoder MLP": ((512,), (1024,)),
}
"""Hyperparameter search for the proxies' clones: row -> values."""

TABLE_11 = Hyperparameters(
    ("ablation",),
    network={
        "Num Players": 2,
        "Activation": "GELU",
        "LSTM Layers": (512,),
        "Input Embedding": (1024,),
        "Decoder MLP": (512,),
    },
    bc=_BC
    | {
        "Dropout": 0.5,
        "Batch Size": 128,
        "Initial LR": 0.005,
        "Final LR": 1e-5,
        "Epochs": 70,
    },
    ippo=_PPO
    | _ENVIRONMENTS
    | {
        "Learning Rate": 5e-4,
        "Entropy Coefficient": 0.01,
        "Total Timesteps": 2e10,
        "Num Eval Envs": 512,
    },
)
"""Ablation of the KL weight."""

_HDR_IPPO = (
    _PPO
    | _ENVIRONMENTS
    | {
        "Learning Rate": 5e-4,
        "Linear Schedule": True,
        "Entropy Coefficient": 0.001,
        "BC Policy KL Weight": 0.25,
        "Total Timesteps": 1e10,
        "Num Eval Envs": 512,
    }
)
_LSTM = {
    "Num Players": _each(2, 3),
    "Activation": "GELU",
    "LSTM Layers": (512,),
    "Input Embedding": _each((1024,), (512,)),
    "Decoder MLP": (256,),
}
_CLONE = _BC | {"Dropout": 0.5, "Initial LR": 0.005, "Final LR": 1e-4}

TABLE_14 = Hyperparameters(
    ("2p-1k", "3p-1k"),
    network=_LSTM,
    bc=_CLONE | {"Batch Size": _each(32, 128), "Epochs": _each(70, 50)},
    ippo=_HDR_IPPO,
)
"""BC and HDR-IPPO on 1,000 games."""

TABLE_15 = Hyperparameters(
    ("2p-5k", "3p-5k"),
    network=_LSTM,
    bc=_CLONE | {"Batch Size": _each(128, 256), "Epochs": 50},
    ippo=_HDR_IPPO,
)
"""BC and HDR-IPPO on 5,000 games."""

TABLE_16 = Hyperparameters(
    ("2p", "3p"),
    network={"Num Players": _each(2, 3), "Activation": "RELU", "MLP": (512, 512)},
    bc={},
    ippo=_PPO
    | _ENVIRONMENTS
    | {"Learning Rate": 5e-4, "Entropy Coefficient": 0.01, "Total Timesteps": 1e10},
    br_bc={"BC Anneal Start": 1e9, "BC Anneal End": 6e9},
)
"""IPPO and BR-BC; the clones of BR-BC are those of Tables 14 and 15."""

TEXT = {
    "bc.weight_decay": (0.0, "A.4: the Adam optimiser across all configurations"),
    "bc_select": ("selfplay", "4.2: the parameters that yield the highest average score"),
    "lineup": ("some-or-none", "A.3, three agents: self-play, a single BC policy or two"),
    "ablation.report_policy": ("final", "A.7: the final policy weights are stored"),
}
"""Preset field -> value and the passage of the paper."""
