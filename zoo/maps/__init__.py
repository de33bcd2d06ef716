"""Attention maps compared with lambdas (Figure 1)."""
