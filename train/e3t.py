"""E3T: from nothing, beside a slow copy of itself that acts at random half of the time.

python train/e3t.py
python train/e3t.py --epsilon 0.25
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("e3t")
