"""BR-BC: best response to a behavioural clone, trained with the clone and in self-play.

python train/br_bc.py --bc-policy runs/bc-2p-...
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("br_bc")
