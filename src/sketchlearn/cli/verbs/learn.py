"""``sketchlearn learn``: models from a sketch, as JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np
import typer

from sketchlearn import __version__
from sketchlearn.cli.app import Debug, Json, check_output, emit, read_sketch, usage, write_bytes
from sketchlearn.decoders import DECODERS, check_components, decode
from sketchlearn.decoders.gmm import decode_gmm
from sketchlearn.learn.pca import CompressivePCA
from sketchlearn.sketch.value import Sketch

MODEL_VERSION = 1

Source = Annotated[str, typer.Argument(help="A sketch; - for standard input.")]
Components = Annotated[int, typer.Option("-k", "--components", help="Number of components.")]
Model = Annotated[str, typer.Option("-o", "--output", help="Where to write the model (JSON); - for standard output.")]
Seed = Annotated[int, typer.Option("--seed", help="For repeatable results.")]


def register(app: typer.Typer) -> None:
    """Add the verb and what can be learned."""
    learn = typer.Typer(help="Learn a model from a sketch.", no_args_is_help=True)
    app.add_typer(learn, name="learn")

    @learn.command()
    def kmeans(
        sketch: Source,
        k: Components,
        output: Model,
        decoder: Annotated[str, typer.Option("--decoder", help="auto, " + ", ".join(DECODERS) + ".")] = "auto",
        medians: Annotated[bool, typer.Option("--medians", help="Centres for distances, not their squares.")] = False,
        seed: Seed = 0,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """Centres of k clusters."""
        if decoder != "auto" and decoder not in DECODERS:
            raise usage(f"--decoder {decoder}: choose auto or one of {', '.join(DECODERS)}")
        check_output(output)
        s = read_sketch(sketch)
        criterion = "medians" if medians else "means"
        found = decode(s, check_components(s, k), decoder=decoder, criterion=criterion, random_state=seed)
        facts = {
            "centers": found.centers.tolist(),
            "weights": found.weights.tolist(),
            "inertia": found.inertia,
            "criterion": criterion,
            "ratio": found.ratio,
            "reliable": found.reliable,
            "verdict": found.verdict,
            "decoder": found.decoder,
        }
        _write(output, "kmeans", s, facts, as_json, f"{k} centres; {found.verdict}")

    @learn.command()
    def gmm(
        sketch: Source,
        k: Components,
        output: Model,
        covariance: Annotated[str, typer.Option("--covariance", help="full, tied, diag or spherical.")] = "full",
        seed: Seed = 0,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """A mixture of k Gaussians."""
        if covariance not in ("full", "tied", "diag", "spherical"):
            raise usage(f"--covariance {covariance}: choose full, tied, diag or spherical")
        check_output(output)
        s = read_sketch(sketch)
        found = decode_gmm(s, check_components(s, k), covariance, rng=np.random.default_rng(seed))
        facts = {
            "weights": found.weights.tolist(),
            "means": found.means.tolist(),
            "covariances": found.covariances.tolist(),
            "covariance_type": covariance,
            "ratio": found.ratio,
            "reliable": found.reliable,
            "verdict": found.verdict,
        }
        _write(output, "gmm", s, facts, as_json, f"{k} components; {found.verdict}")

    @learn.command()
    def pca(
        sketch: Source,
        k: Components,
        output: Model,
        seed: Seed = 0,
        as_json: Json = False,
        debug: Debug = False,
    ) -> None:
        """The first k principal components, from a sketch of quadratic features."""
        check_output(output)
        s = read_sketch(sketch)
        if s.features.kind != "quadratic":
            raise usage(
                f"principal components need quadratic features, the sketch has {s.features.kind} ones: "
                "design with --task pca"
            )
        model = CompressivePCA(n_components=k, random_state=seed).fit_sketch(s)
        facts = {
            "components": model.components_.tolist(),
            "explained_variance": model.explained_variance_.tolist(),
            "explained_variance_ratio": model.explained_variance_ratio_.tolist(),
            "mean": model.mean_.tolist(),
        }
        share = float(model.explained_variance_ratio_.sum())
        _write(output, "pca", s, facts, as_json, f"{k} components explain {share:.1%} of the variance")


def _write(output: str, task: str, s: Sketch, facts: dict[str, Any], as_json: bool, line: str) -> None:
    """Write the model, and say what was found."""
    columns = s.features.columns
    model = {
        "format": "sketchlearn.model",
        "version": MODEL_VERSION,
        "library": __version__,
        "task": task,
        "rows": s.count,
        "columns": None if columns is None else list(columns),
        **facts,
    }
    write_bytes(output, (json.dumps(model, indent=1, allow_nan=False) + "\n").encode())
    if output != "-":
        short = {key: value for key, value in facts.items() if not isinstance(value, list)}
        emit({"output": output, "task": task, **short}, as_json, f"{output}: {line}")
