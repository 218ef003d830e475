"""Recipes: the configuration of a run as YAML, validated before any data is read."""
