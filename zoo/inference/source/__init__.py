"""Sources of a network, one class each: a finished run, a published folder, a name with weights."""
