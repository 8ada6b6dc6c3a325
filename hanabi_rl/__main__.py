"""`python -m hanabi_rl` is the `hanabi-rl` command."""

from hanabi_rl.cli import main

if __name__ == "__main__":
    main()
