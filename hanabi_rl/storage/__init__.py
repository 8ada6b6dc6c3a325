"""Bytes on disk: atomic files, arrays with their hashes, checkpoints, records as JSON."""
