"""Common parts of commands: settings, errors, exit codes, options that name a model."""
