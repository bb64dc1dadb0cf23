"""Erasing records, wherever a node keeps them."""
