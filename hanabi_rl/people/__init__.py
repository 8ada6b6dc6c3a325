"""Agents with people: browser play, studies, challenge server, hanab.live bot."""
