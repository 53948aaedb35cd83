"""What searches and descents may cost: every decoder and step without a reason of its own uses these numbers."""

STEPS = 100
"""L-BFGS iterations of a descent from which others go on: the misfit is then within a percent of its minimum."""
FEW_STEPS = 20
"""L-BFGS iterations within a loop that changes the components between them."""
RESTARTS = 6
"""Searches, at most: where one of three fails, six leave one failure in seven hundred."""
PATIENCE = 3
"""Rounds without progress that end a loop."""
GAIN = 0.99
"""A round that leaves more than this share of the misfit is without progress."""
AGREE = 1.05
"""Ratio of two misfits up to which two searches have found the same: the model is wrong then, not the search."""
