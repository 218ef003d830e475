"""Recipes that come with songrank: one YAML file a data set, for every loss."""
