"""Attention maps beside lambdas (Figure 1)."""
