"""IPPO: self-play from scratch, feed-forward (AH2AC2's baseline) or recurrent.

python train/ippo.py
python train/ippo.py --preset high-entropy
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("ippo")
