"""BR-BC: a best response to a cloned policy, learnt beside it.

python train/br_bc.py --bc-policy runs/bc-2p-...
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("br_bc")
