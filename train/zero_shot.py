"""SP, FCP, HSP and E3T compared on partners that none of them has met; run again, it goes on.

python train/zero_shot.py --out runs/zero-shot
"""

from hanabi_rl.cli.zero_shot import main

if __name__ == "__main__":
    main()
