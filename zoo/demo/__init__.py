"""The demo page: `python -m zoo.demo`."""
