"""Best response to given partners, from nothing: to one, or to a population (the second stage of
FCP).

python train/best_response.py --partners bot:convention
python train/best_response.py --partners runs/ippo-a/checkpoints/20 runs/ippo-a runs/ippo-b
"""

from hanabi_rl.launch.script import main

if __name__ == "__main__":
    main("best_response")
