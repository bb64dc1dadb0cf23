"""What `stratalog bench startup` is made of: a directory to load, the rival, and a chart."""
