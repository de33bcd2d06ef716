"""Publishing: `python -m zoo.publish`."""
