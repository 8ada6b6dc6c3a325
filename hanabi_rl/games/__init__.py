"""Games, one subpackage per game."""
