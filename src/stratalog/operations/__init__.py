"""What people do to directories that no broker runs on: each looks, plans and applies."""
