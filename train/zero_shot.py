"""SP, FCP, HSP and E3T compared on partners that none of them has met; run again, it goes on.

python train/zero_shot.py --out runs/zero-shot
"""

import sys

from hanabi_rl.cli import main

if __name__ == "__main__":
    main(["zero-shot", *sys.argv[1:]])
