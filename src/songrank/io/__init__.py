"""Files in and out, without knowledge of what they hold: atomic writes, stored arrays, sources, tables."""
