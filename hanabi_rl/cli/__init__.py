"""The `hanabi-rl` command. Subcommands import their dependencies late to keep `--help` fast."""

from hanabi_rl.cli.app import main

__all__ = ["main"]
