"""Preparation steps that readers share: filtering, splitting, features, vocabularies."""
