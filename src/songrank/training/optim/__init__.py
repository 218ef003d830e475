"""Optimisers and weight updates that are not in torch."""
