"""A server that adds up the sketches of all nodes and learns from the sum."""

from flwr.serverapp import ServerApp

import sketchlearn as sl
from sketchlearn.federation.flower import collect

PHI = sl.FourierFeatures.draw(dim=2, size=200, scale=1.0, seed=0)  # from public bounds: no client shows a row
app = ServerApp()


@app.main()
def main(grid, context):
    """One question to all nodes."""
    collected = collect(grid, PHI, fewest=int(context.run_config["nodes"]))
    collected.sketch.save(str(context.run_config["output"]))
    solution = sl.decode(collected.sketch, 2, random_state=0)
    print(f"{collected.sketch.count:,} rows of {len(collected.nodes)} nodes: {solution.verdict}")
