"""The `hanabi-rl` command. Each subcommand imports what it needs when it runs, so that `--help` is
quick."""

from hanabi_rl.cli.app import main

__all__ = ["main"]
