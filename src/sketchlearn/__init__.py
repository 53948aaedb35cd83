"""Learn from one small, mergeable sketch of the data instead of from its rows."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sketchlearn import datasets, local, plots
    from sketchlearn.comparison import (
        Comparison,
        DetectionErrors,
        Discrepancy,
        Independence,
        Score,
        compare,
        detection_errors,
        distances,
        drift,
        goodness_of_fit,
        independence,
        mean_kernel,
        mmd,
        score,
        synthesize,
    )
    from sketchlearn.decoders import Mixture, Solution, Sweep, decode, decoding_budget, decoding_engine, sweep
    from sketchlearn.designs import design, design_independence
    from sketchlearn.engines.append import append
    from sketchlearn.engines.follow import follow
    from sketchlearn.exceptions import (
        BudgetError,
        DataWarning,
        DuplicateRowsError,
        IncompatibleSketchError,
        InputError,
        LedgerFileError,
        MissingPackageError,
        ModelFileError,
        SketchFileError,
        SourceError,
    )
    from sketchlearn.features import (
        CompletedFeatures,
        EmbeddedFeatures,
        Encoder,
        FeatureMap,
        FourierFeatures,
        PairwiseFeatures,
        Projection,
        QuadraticFeatures,
        QuarticFeatures,
    )
    from sketchlearn.learn import (
        CompressiveAnomalyDetector,
        CompressiveCCA,
        CompressiveClassifier,
        CompressiveDictionaryLearning,
        CompressiveGaussianMixture,
        CompressiveICA,
        CompressiveKMeans,
        CompressiveKMedians,
        CompressiveLDA,
        CompressiveLinearRegression,
        CompressiveMixtureRegressor,
        CompressiveNMF,
        CompressivePCA,
        CompressiveSpectralClustering,
        CompressiveStableMixture,
        CompressiveSubspaces,
        CompressiveVerifier,
    )
    from sketchlearn.models import Model
    from sketchlearn.models.loading import load
    from sketchlearn.privacy import Ledger, PrivacyRecord, privatize
    from sketchlearn.profiling import profile
    from sketchlearn.sketches import Accumulator, Sketch, SketchTable, merge
    from sketchlearn.sketching import sketch
    from sketchlearn.sources import Source, read
    from sketchlearn.store import Store

__version__ = "0.1.0"

# the package of every public name: loaded when the name is first used, so that `import sketchlearn` costs nothing
_ROOMS = {
    "comparison": "Comparison DetectionErrors Discrepancy Independence Score compare detection_errors distances drift "
    "goodness_of_fit independence mean_kernel mmd score synthesize",
    "decoders": "Mixture Solution Sweep decode decoding_budget decoding_engine sweep",
    "designs": "design design_independence",
    "engines.append": "append",
    "engines.follow": "follow",
    "exceptions": "BudgetError DuplicateRowsError DataWarning IncompatibleSketchError InputError LedgerFileError "
    "MissingPackageError ModelFileError SketchFileError SourceError",
    "features": "CompletedFeatures EmbeddedFeatures Encoder FeatureMap FourierFeatures PairwiseFeatures Projection "
    "QuadraticFeatures QuarticFeatures",
    "learn": "CompressiveAnomalyDetector CompressiveCCA CompressiveClassifier CompressiveDictionaryLearning "
    "CompressiveGaussianMixture CompressiveICA CompressiveKMeans CompressiveKMedians CompressiveLDA "
    "CompressiveMixtureRegressor CompressiveNMF CompressivePCA CompressiveLinearRegression "
    "CompressiveSpectralClustering CompressiveStableMixture CompressiveSubspaces CompressiveVerifier",
    "models": "Model",
    "models.loading": "load",
    "privacy": "Ledger PrivacyRecord privatize",
    "profiling": "profile",
    "sketching": "sketch",
    "sketches": "Accumulator Sketch SketchTable merge",
    "sources": "Source read",
    "store": "Store",
}
_ROOM = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = [
    "Accumulator", "BudgetError", "Comparison", "CompletedFeatures", "CompressiveAnomalyDetector", "CompressiveCCA",
    "CompressiveClassifier", "CompressiveDictionaryLearning", "CompressiveGaussianMixture", "CompressiveICA",
    "CompressiveKMeans", "CompressiveKMedians", "CompressiveLDA", "CompressiveLinearRegression",
    "CompressiveMixtureRegressor", "CompressiveNMF", "CompressivePCA", "CompressiveSpectralClustering",
    "CompressiveStableMixture", "CompressiveSubspaces", "CompressiveVerifier", "DataWarning", "DetectionErrors",
    "Discrepancy", "DuplicateRowsError", "EmbeddedFeatures", "Encoder", "FeatureMap", "FourierFeatures",
    "IncompatibleSketchError", "Independence", "InputError", "Ledger", "LedgerFileError", "MissingPackageError",
    "Mixture", "Model", "ModelFileError", "PairwiseFeatures", "PrivacyRecord", "Projection", "QuadraticFeatures",
    "QuarticFeatures", "Score", "Sketch", "SketchFileError", "SketchTable", "Solution", "Source", "SourceError",
    "Store", "Sweep", "append", "compare", "datasets", "decode", "decoding_budget", "decoding_engine", "design",
    "design_independence", "detection_errors", "distances", "drift", "follow", "goodness_of_fit", "independence",
    "load", "local", "mean_kernel", "merge", "mmd", "plots", "privatize", "profile", "read", "score", "sketch", "sweep",
    "synthesize",
]  # fmt: skip


# names that users should no longer take from here: where each is now, and under which name
_MOVED = {
    "CompressiveRegression": ("sketchlearn", "CompressiveLinearRegression"),
    "active_kernel": ("sketchlearn.kernels", "active_kernel"),
}


def __getattr__(name: str) -> Any:
    if name in ("datasets", "local", "plots"):
        return importlib.import_module(f"sketchlearn.{name}")
    if name in _MOVED:
        room, new = _MOVED[name]
        text = f"sketchlearn.{name} is {room}.{new} now; the old name will be removed in version 0.2"
        from sketchlearn.exceptions import warn

        warn(text, FutureWarning)
        return getattr(importlib.import_module(room), new)
    if name not in _ROOM:
        raise AttributeError(f"module 'sketchlearn' has no attribute {name!r}{_guessed(name)}")
    value = getattr(importlib.import_module(f"sketchlearn.{_ROOM[name]}"), name)
    globals()[name] = value  # asked for once
    return value


def _guessed(name: str) -> str:
    """The public name that was meant, perhaps, as the end of a message; nobody looks for names of Python's own."""
    if name.startswith("_"):
        return ""
    from difflib import get_close_matches

    wanted, known = name.lower(), {public.lower(): public for public in __all__}
    near = get_close_matches(wanted, known, 1, 0.8) or [each for each in known if each.endswith(wanted)][:1]
    return f"; did you mean {known[near[0]]!r}?" if near else ""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
