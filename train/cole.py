"""COLE: training from scratch with snapshots of the policy as partners.

python train/cole.py
python train/cole.py --game overcooked:forced_coordination
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("cole")
