"""What all commands share: settings, how a command ends, the options that name a model."""
