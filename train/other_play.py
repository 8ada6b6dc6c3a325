"""Other-Play: self-play in which every agent calls the colours by names of its own.

python train/other_play.py
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("other_play")
