"""Parsers of text formats to arrays; errors name the line."""
