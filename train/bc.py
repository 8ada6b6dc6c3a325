"""Behavioural cloning of recorded Hanabi games.

python train/bc.py --data games.safetensors --val more.safetensors
python train/bc.py --preset 2p-1k --data train.safetensors --seeds 0 1 2
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("bc")
