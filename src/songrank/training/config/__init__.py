"""Recipes: what a run is to do, as YAML that is validated before any data is read."""
