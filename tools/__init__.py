"""What developers of Stratalog run, and users do not."""
