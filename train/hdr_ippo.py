"""HDR-IPPO: a human-like partner from a clone and regularised self-play.

python train/hdr_ippo.py --kl-weight 0.25
python train/hdr_ippo.py --preset 2p-1k --bc.data games.safetensors
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("hdr_ippo")
