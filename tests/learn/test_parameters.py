"""Parameters are declared: bad values are refused before any row is read, and old names still work."""

import inspect
import re
import warnings

import numpy as np
import pytest
from learn_checks import CASES, rows
from sklearn.base import clone

import sketchlearn as sl
from sketchlearn.learn.parameters import SHARED

EVERY = {
    **{name: case.make for name, case in CASES.items()},
    "anomaly": lambda **o: sl.CompressiveAnomalyDetector(**o),
    "verifier": lambda **o: sl.CompressiveVerifier(2, **o),
    "spectral": lambda **o: sl.CompressiveSpectralClustering(2, **o),
}
BAD = {
    "features": 3,
    "sketch_size": 1.5,
    "projection": -1,
    "decoder": 7,
    "standardize": "no",
    "on_invalid": "drop",
    "n_jobs": 0,
    "progress": 3,
    "random_state": "now",
}


class Unread:
    """Rows that must not be looked at."""

    def __array__(self, *args, **options):
        raise AssertionError("the rows were read")


@pytest.mark.parametrize("name", list(EVERY))
def test_shared_parameters_are_refused_by_name_value_and_what_is_accepted(name):
    assert set(BAD) == set(SHARED)
    taken = EVERY[name]().get_params()
    for parameter, value in BAD.items():
        if parameter not in taken:
            continue
        estimator = EVERY[name]().set_params(**{parameter: value})
        with pytest.raises(ValueError, match=rf"^{parameter} must be .*, got {parameter}={value!r}$"):
            estimator.fit(Unread(), None)


@pytest.mark.parametrize(
    ("make", "parameter", "values"),
    [
        (sl.CompressiveKMeans, "n_decodes", (-2, 0, True, 2.0)),
        (sl.CompressiveKMeans, "n_clusters", (0, "many", None, True)),
        (sl.CompressiveGaussianMixture, "warm_start", ("yes", 1)),
        (sl.CompressiveGaussianMixture, "covariance_type", ("round", None)),
        (sl.CompressiveGaussianMixture, "sketch_size", (1,)),
        (sl.CompressiveStableMixture, "scatter_type", ("tied",)),
        (sl.CompressivePCA, "n_components", (0, 1.0, 1.5, True, "all")),
        (sl.CompressivePCA, "n_starts", (0, None)),
        (sl.CompressivePCA, "embedding", ("fourier",)),
        (sl.CompressiveLinearRegression, "alpha", (-1.0, np.inf, np.nan, True, "some")),
        (sl.CompressiveLinearRegression, "fit_intercept", ("no",)),
        (sl.CompressiveICA, "radius", (0.0, "wide", True)),
        (sl.CompressiveDictionaryLearning, "n_nonzero", (0, "all")),
        (sl.CompressiveNMF, "n_components", (0, "auto")),
        (sl.CompressiveCCA, "n_components", (0, "all")),
        (sl.CompressiveClassifier, "class_weight", ("heavy", 2.0)),
        (sl.CompressiveClassifier, "covariance_type", ("round",)),
        (sl.CompressiveClassifier, "n_components", ("auto",)),
        (sl.CompressiveAnomalyDetector, "contamination", (0.0, 1.0, "auto")),
        (sl.CompressiveVerifier, "relevance", (0.0, None)),
        (sl.CompressiveSubspaces, "dim", (0, 1.0)),
        (sl.CompressiveSpectralClustering, "n_neighbors", (0,)),
        (sl.CompressiveMixtureRegressor, "missing", ("drop",)),
    ],
)
def test_own_parameters_are_refused(make, parameter, values):
    for value in values:
        with pytest.raises(ValueError, match=rf"^{parameter} must be .*got {parameter}="):
            make(**{parameter: value}).fit(Unread(), Unread())


@pytest.mark.parametrize("name", [name for name in sl.__all__ if name.startswith("Compressive")])
def test_docstrings_name_every_parameter_once(name):
    """Also those that all estimators share, which are added to what a class says itself."""
    made = getattr(sl, name)
    parts = re.split(r"^(\w[\w ]*)\n-+\n", inspect.getdoc(made), flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if "Parameters" not in sections:
        assert name == "CompressiveKMedians"  # says that they are those of k-means
        return
    named = [each for line in re.findall(r"^(\w[\w, ]*) : ", sections["Parameters"], re.M) for each in line.split(", ")]
    assert sorted(named) == sorted(inspect.signature(made).parameters)
    for shown in ("sketch_", "solution_", "reliable_", "verdict_", "n_features_in_"):
        assert len(re.findall(rf"\b{shown}\b", sections["Attributes"])) >= 1, shown


def test_what_is_accepted():
    X = rows(200)
    for progress in (False, None, lambda done, total: None):
        sl.CompressiveKMeans(np.int64(2), n_jobs=-1, progress=progress, random_state=np.int64(0)).fit(X)
    sl.CompressivePCA(np.float32(0.5), whiten=np.bool_(True)).fit(X)


def test_old_names_of_parameters_warn_and_work():
    with pytest.warns(FutureWarning, match="CompressiveKMeans: the parameter workers is called n_jobs now"):
        old = sl.CompressiveKMeans(2, workers=1)
    assert old.get_params() == sl.CompressiveKMeans(2, n_jobs=1).get_params()
    with pytest.warns(FutureWarning, match="n_jobs"):
        assert old.set_params(workers=2).n_jobs == 2
    with pytest.warns(FutureWarning, match="n_jobs"):
        assert old.workers == 2
    with pytest.warns(FutureWarning, match="contamination"):
        assert sl.CompressiveAnomalyDetector(false_alarms=0.2).contamination == 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clone(old).n_jobs == 2
    with pytest.raises(TypeError, match="threads"):
        sl.CompressiveKMeans(2, threads=1)


def test_old_public_names_warn_and_are_the_new_ones():
    from sketchlearn.kernels import active_kernel

    with pytest.warns(FutureWarning, match="sketchlearn.CompressiveRegression is sketchlearn.CompressiveLinear"):
        assert sl.CompressiveRegression is sl.CompressiveLinearRegression
    with pytest.warns(FutureWarning, match=r"sketchlearn\.kernels\.active_kernel"):
        assert sl.active_kernel is active_kernel
    assert not {"CompressiveRegression", "active_kernel"} & set(sl.__all__)
