"""Behaviour-preferring partners and their best responses, candidates for `hanabi-rl partners`.

python train/behaviour_preferring.py --preset small --num-pairs 16
python train/behaviour_preferring.py --num-pairs 12
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("behaviour_preferring")
