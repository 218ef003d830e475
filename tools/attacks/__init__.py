"""The attack on songrank: one module per kind of try; ``tools/attack.py`` is its command."""
