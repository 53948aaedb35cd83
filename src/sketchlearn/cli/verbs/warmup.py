"""``sketchlearn warmup``: compile all loops now, for instance while a container is built."""

from __future__ import annotations

from sketchlearn.cli.options import Json, verb
from sketchlearn.cli.outputs import emit


@verb("warmup")
def warmup(as_json: Json = False) -> None:
    """Compile all loops for this processor and keep them on disk.

    The compiled code lies beside the package, or in the user's cache folder where that can't be written;
    NUMBA_CACHE_DIR names another place.
    """
    from sketchlearn.kernels import warmup as warm

    done = warm()
    if done.tier == "numpy":
        text = "nothing to compile: sums run on NumPy here"
    else:
        what = f"compiled {len(done.compiled)} functions" if done.compiled else "nothing to compile"
        where = f"kept in {done.cache}" if done.cache else "not kept: no folder for compiled code can be written"
        text = f"{what} in {done.seconds:.1f} s (tier {done.tier}), {where}"
    facts = {"tier": done.tier, "compiled": list(done.compiled), "seconds": round(done.seconds, 3), "cache": done.cache}
    emit(facts, as_json, text)
