"""Compare SP, FCP, HSP and E3T with unseen partners; the same command continues a stopped run.

python train/zero_shot.py --out runs/zero-shot
"""

import sys

from hanabi_rl.cli import main

if __name__ == "__main__":
    main(["zero-shot", *sys.argv[1:]])
