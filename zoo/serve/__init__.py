"""HTTP server of exports: `python -m zoo.serve exports/NAME`."""
