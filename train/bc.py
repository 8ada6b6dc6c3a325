"""Behavioural cloning of recorded Hanabi games.

python train/bc.py --data games.safetensors --val more.safetensors
python train/bc.py --preset 2p-1k --data train.safetensors --seeds 0 1 2
"""

from pathlib import Path

from hanabi_rl.config import BCConfig
from hanabi_rl.pipelines.bc import pooled_validation, run_bc
from hanabi_rl.pipelines.script import main

if __name__ == "__main__":
    main(
        Path(__file__).parents[1] / "configs",
        "bc",
        BCConfig,
        run_bc,
        {
            "policy_accuracy_val_accuracy": "val accuracy",
            "policy_accuracy_val_loss": "val loss",
            "policy_selfplay_mean": "self-play",
            "policy_selfplay_points_mean": "points",
        },
        pooled_validation,
    )
