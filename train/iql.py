"""IQL: recurrent Q-learning of each player's own values.

python train/iql.py
python train/iql.py --game overcooked:cramped_room
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("iql")
