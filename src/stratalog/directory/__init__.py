"""The log directories of a node: what is in them, whose they are, and the one way to change them."""
