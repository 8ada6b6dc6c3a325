"""E3T: training from scratch with a noisy moving average of the policy as partner.

python train/e3t.py
python train/e3t.py --epsilon 0.25
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("e3t")
