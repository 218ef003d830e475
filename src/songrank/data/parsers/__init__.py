"""Parsers of text formats: from bytes to arrays, with the line of every mistake."""
