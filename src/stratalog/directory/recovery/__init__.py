"""The recovery of log directories that were not shut down cleanly."""
