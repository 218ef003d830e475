"""Optimisers and weight updates that torch does not have."""
