"""Models in the formats that other programs run."""
