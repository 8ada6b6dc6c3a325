"""TrajeDi: population with diverse trajectories, for a best response to its members.

python train/trajedi.py
python train/trajedi.py --preset small-structured --trajectory-discount 1
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("trajedi")
