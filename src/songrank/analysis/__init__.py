"""Finished runs compared, combined, searched over and reported."""
