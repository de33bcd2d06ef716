"""References, small networks and data, servers and commands that several tests use."""
