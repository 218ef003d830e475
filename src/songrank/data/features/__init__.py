"""Features of items and users: tables of columns, encoded as numbers with stored vocabularies."""
