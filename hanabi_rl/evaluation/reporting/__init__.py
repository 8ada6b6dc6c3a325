"""Measures as text, JSON and pictures."""
