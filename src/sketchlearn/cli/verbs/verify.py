"""``sketchlearn verify``: test whether a sketch comes from a known speaker."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from sketchlearn.cli.inputs import is_table, read_model, read_sketch
from sketchlearn.cli.options import Json, option, verb
from sketchlearn.cli.outputs import Code, emit, usage, working


@verb("verify model.json visitor.sketch --claim anna")
def verify(
    model: Annotated[str, typer.Argument(help="A model written by 'learn verifier'.")],
    test: Annotated[str, typer.Argument(help="A sketch of the rows to test, made with the map of the background.")],
    claim: Annotated[str | None, option("The claimed speaker; by default all speakers are scored.")] = None,
    prior: Annotated[float, option("Prior probability that a claim is true.")] = 0.5,
    as_json: Json = False,
) -> None:
    """Compute log-likelihood ratios for enrolled speakers. The exit code is 10 if the claim is rejected."""
    if not 0 < prior < 1:
        raise usage(f"--prior {prior}: choose a probability above 0 and below 1")
    learned = read_model(model)
    from sketchlearn.comparison.verifier_model import VerifierModel
    from sketchlearn.exceptions import IncompatibleSketchError, ModelFileError, SketchFileError

    if not isinstance(learned, VerifierModel):
        raise ModelFileError(
            f"{model}: a {learned.task} model can't verify anything; make a model with 'learn verifier'"
        )
    if is_table(test) and Path(test).is_file():
        raise SketchFileError(f"{test}: a table; give the sketch of one segment")
    sketch = read_sketch(test)
    if sketch.features != learned.features:
        difference = learned.features.difference(sketch.features)
        raise IncompatibleSketchError(f"{test}: made with another feature map than the background: {difference}")
    with working("verifying"):
        ratios = learned.log_ratios(sketch)
    if not ratios:
        raise ModelFileError(f"{model}: nobody is enrolled; run 'learn verifier' with --enroll TABLE")
    if claim is not None:
        if claim not in ratios:
            raise usage(f"--claim {claim}: enrolled are {', '.join(list(ratios)[:20])}")
        ratios = {claim: ratios[claim]}
    limit = -math.log(prior / (1.0 - prior))
    accepted = {name: value > limit for name, value in ratios.items()}
    lines = [
        f"{name}: log-likelihood ratio {value:+.2f}, {'accepted' if accepted[name] else 'rejected'}"
        for name, value in sorted(ratios.items(), key=lambda item: -item[1])
    ]
    emit({"log_ratios": ratios, "accepted": accepted, "threshold": limit}, as_json, "\n".join(lines))
    if claim is not None and not accepted[claim]:
        raise typer.Exit(Code.DIFFERENT)
