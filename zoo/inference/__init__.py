"""A trained network with labels and preprocessing, and what it says about photographs."""
