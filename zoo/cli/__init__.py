"""Common parts of commands: settings, errors and exit codes, options that name a model."""
