"""MEP: population with an entropy bonus of its mean policy, for a best response to its members.

python train/mep.py
python train/mep.py --game overcooked:forced_coordination
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("mep")
