"""Best response to one partner or a population (second stage of FCP), from scratch.

python train/best_response.py --partners bot:convention
python train/best_response.py --partners runs/ippo-a/checkpoints/20 runs/ippo-a runs/ippo-b
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("best_response")
