"""Other-Play: self-play with a separate permutation of colours for every player.

python train/other_play.py
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("other_play")
