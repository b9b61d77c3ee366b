"""The largest batch of a network that fits into memory: small batches measured, a prediction, its confirmation."""
