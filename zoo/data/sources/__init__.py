"""Data sources, one file each, and their table."""
