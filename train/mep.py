"""MEP: population with an entropy bonus of its mean policy, for a best response to its members.

python train/mep.py
python train/mep.py --preset overcooked --game overcooked:forced_coordination --alpha 0.05
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("mep")
