"""Tool calls in what a model says: one module per way of writing them."""
