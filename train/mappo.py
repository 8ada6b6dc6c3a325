"""MAPPO: self-play from scratch with a central critic on the whole state.

python train/mappo.py
python train/mappo.py --game overcooked:cramped_room
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("mappo")
