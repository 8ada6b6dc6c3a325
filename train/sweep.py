"""Train an algorithm over a grid of its fields and seeds; the same command continues a sweep.

python train/sweep.py --kl-weights 0 0.01 0.08 0.13 0.2 0.3 0.5 0.7 --seeds 0 1 2
python train/sweep.py --algorithm ippo --preset quick --grid 'entropy_coef=[0.01, 0.05]' --seeds 0 1
python train/sweep.py --sweep bc-grid --data games.safetensors
"""

from hanabi_rl.launch.sweep import main

if __name__ == "__main__":
    main()
