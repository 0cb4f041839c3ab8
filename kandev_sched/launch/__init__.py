"""WHO WORKS: everything that runs agent programs."""
