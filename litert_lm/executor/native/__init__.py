"""What touches LiteRT: models, compiling, buffers, the weight cache."""
