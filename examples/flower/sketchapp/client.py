"""A client that sketches the rows of its node; put the path of your own data here."""

import numpy as np

from sketchlearn.federation.flower import client_app


def rows(context):
    """A thousand rows, others for every node."""
    return np.random.default_rng(int(context.node_config["partition-id"])).normal(size=(1000, 2))


app = client_app(rows)
