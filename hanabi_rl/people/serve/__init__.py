"""A table with agents in the browser or as text; studies with people; the challenge's server."""
