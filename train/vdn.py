"""VDN: recurrent Q-learning whose value is the sum of all players' values.

python train/vdn.py
python train/vdn.py --game overcooked:cramped_room
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("vdn")
