"""Data sets from where they are published."""
