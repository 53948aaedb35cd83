"""One verb a file; each has ``register(app)``."""
