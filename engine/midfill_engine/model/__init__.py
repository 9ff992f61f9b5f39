"""The embedded model in torch: weights, attention, key-value slabs. Knows nothing of requests."""
