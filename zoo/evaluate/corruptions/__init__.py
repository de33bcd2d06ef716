"""Errors on corrupted images: the 15 corruptions of ImageNet-C at five severities."""
