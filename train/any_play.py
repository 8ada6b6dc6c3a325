"""Any-Play: training from scratch with a partner of many styles.

python train/any_play.py
python train/any_play.py --preset small-structured --styles 4
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("any_play")
