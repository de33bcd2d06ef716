"""Common parts of commands: their table, start, exit codes and settings."""
