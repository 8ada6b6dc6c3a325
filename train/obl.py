"""Off-belief learning, level 1 (Hu et al. 2021).

python train/obl.py
python train/obl.py --preset quick
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("obl")
