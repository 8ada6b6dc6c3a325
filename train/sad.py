"""SAD: VDN whose players also see greedy actions in training.

python train/sad.py
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("sad")
