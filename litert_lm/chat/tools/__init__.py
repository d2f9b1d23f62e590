"""Tools: how they are described, called and run."""
