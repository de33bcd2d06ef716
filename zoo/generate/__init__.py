"""Autoregressive image generation with causal lambda layers."""
