"""``sketchlearn learn``: learn a model from a sketch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sketchlearn.cli.help import Covariance, Decoder
from sketchlearn.cli.inputs import is_table, names_in, read_model, read_sketch
from sketchlearn.cli.options import (
    Budget,
    DecodingEngine,
    Json,
    Seed,
    option,
    own_parameters,
    parameter,
    verb,
    with_signature,
)
from sketchlearn.cli.outputs import check_output, emit, usage, working, write_bytes
from sketchlearn.exceptions import SketchFileError
from sketchlearn.words import counted

if TYPE_CHECKING:
    from sketchlearn.sketches import Sketch

Source = Annotated[str, typer.Argument(help="A sketch; - for standard input.")]
Components = Annotated[int, option("Number of components.", "--components", "-k", min=1)]
Clusters = Annotated[int, option("Number of clusters; 'sweep' finds it.", "--components", "-k", min=1)]
Model = Annotated[str, option("Where to write the model (JSON); - for standard output.", "--output", "-o")]
Explain = Annotated[
    bool, option("Show how the decoder found the model, stage by stage, on standard error.", "--explain")
]
Start = Annotated[str | None, option("An earlier model to start from; its clusters keep their numbers.", "--start")]
Learned = tuple[Any, str]
"""An estimator that has learned, and what to say about it."""


GROUP = "Learn a model from a sketch."


def _learns(*shown: str, name: str | None = None) -> Callable[[Callable[..., Learned]], Callable[..., None]]:
    """Make a verb of what can be learned: a function of a sketch and options (a decorator)."""

    def made(find: Callable[..., Learned]) -> Callable[..., None]:
        def learn(**given: Any) -> None:
            output, explain, as_json = (given.pop(option) for option in ("output", "explain", "as_json"))
            check_output(output, *(given[file] for file in ("sketch", "table", "enroll") if given.get(file)))
            found, line = find(**given)
            model = found.to_model()
            write_bytes(output, model.to_json().encode())
            if explain:  # where it is in nobody's way
                typer.echo(model.explain(), err=True)
            if output != "-":
                emit({"output": output, "task": model.task, **model.summary()}, as_json, f"{output}: {line}")

        own = own_parameters(find)
        every = [
            *(each for each in own if each.default is each.empty),
            parameter("output", Model),
            *(each for each in own if each.default is not each.empty),
            parameter("explain", Explain, False),
            parameter("as_json", Json, False),
        ]
        return verb(*shown, name=name)(with_signature(learn, find, every))

    return made


@_learns("learn kmeans all.sketch -k 10 -o model.json")
def kmeans(
    sketch: Source,
    k: Clusters,
    decoder: Annotated[Decoder, option("How to find the centres; auto needs no tuning.")] = "auto",
    medians: Annotated[bool, option("k-medians: minimise distances instead of squared distances.")] = False,
    start: Start = None,
    seed: Seed = 0,
    budget: Budget = None,
    engine: DecodingEngine = "cpu",
) -> Learned:
    """Find the centres of k clusters."""
    s = read_sketch(sketch)
    from sketchlearn.learn import CompressiveKMeans, CompressiveKMedians

    kind = CompressiveKMedians if medians else CompressiveKMeans
    begin = None if start is None else read_model(start)
    found = _fitted(kind(k, decoder=decoder, start=begin, random_state=seed), s, f"looking for {counted(k, 'cluster')}")
    return found, f"{counted(k, 'centre')}. {found.verdict_}"


@_learns("learn gmm all.sketch -k 5 --covariance diag -o model.json")
def gmm(
    sketch: Source,
    k: Components,
    covariance: Annotated[Covariance, option("Shape of the components.")] = "full",
    start: Start = None,
    seed: Seed = 0,
    budget: Budget = None,
) -> Learned:
    """Fit a mixture of k Gaussians."""
    s = read_sketch(sketch)
    from sketchlearn.learn import CompressiveGaussianMixture

    begin = None if start is None else read_model(start)
    estimator = CompressiveGaussianMixture(k, covariance_type=covariance, start=begin, random_state=seed)
    found = _fitted(estimator, s, f"fitting {k} components")
    return found, f"{counted(k, 'component')}. {found.verdict_}"


@_learns("learn stable all.sketch -k 3 -o model.json")
def stable(
    sketch: Source,
    k: Components,
    scatter: Annotated[Literal["full", "diag"], option("Shape of the components.")] = "full",
    seed: Seed = 0,
    budget: Budget = None,
) -> Learned:
    """Fit a mixture of k heavy-tailed (stable) components."""
    s = read_sketch(sketch)
    from sketchlearn.learn import CompressiveStableMixture

    estimator = CompressiveStableMixture(k, scatter_type=scatter, random_state=seed)
    found = _fitted(estimator, s, f"fitting {k} components")
    return found, f"{counted(k, 'component')}. {found.verdict_}"


@_learns("sketch data.parquet --task pca -o pca.sketch", "learn pca pca.sketch -k 5 -o model.json")
def pca(
    sketch: Source,
    k: Components,
    standardize: Annotated[bool, option("Compute components of standardised columns.")] = False,
    seed: Seed = 0,
) -> Learned:
    """Compute the first k principal components, from quadratic features."""
    s = read_sketch(sketch)
    from sketchlearn.learn import CompressivePCA

    found = _fitted(
        CompressivePCA(n_components=k, standardize=standardize, random_state=seed), s, f"looking for {k} components"
    )
    share = float(found.explained_variance_ratio_.sum())
    return found, f"{counted(k, 'component')} {'explains' if k == 1 else 'explain'} {share:.1%} of the variance"


@_learns("sketch data.parquet --task regression -o r.sketch", "learn regression r.sketch --target price -o model.json")
def regression(
    sketch: Source,
    target: Annotated[str, option("Column to predict: a name or a number from 0.")],
    predictors: Annotated[
        list[str] | None, option("Columns to predict from, separated by commas; by default all others.")
    ] = None,
    penalty: Annotated[
        float | None, option("Ridge penalty; by default none, or chosen if entries are missing.")
    ] = None,
    seed: Seed = 0,
) -> Learned:
    """Regress one column on others, from quadratic features."""
    s = read_sketch(sketch)
    from sketchlearn.learn import CompressiveLinearRegression
    from sketchlearn.plots.geometry import column_numbers

    names = names_in(predictors, "--predictors")
    columns = s.features.columns or tuple(str(i) for i in range(s.features.dim))
    chosen = None if names is None else column_numbers(names, columns)
    [wanted] = column_numbers([target], columns)
    found = CompressiveLinearRegression(alpha="auto" if penalty is None else penalty, random_state=seed).fit_sketch(
        s, wanted, chosen
    )
    line = f"{target} from {counted(found.n_features_in_, 'column')}: R² = {found.r2_:.4f}"
    return found, line


@_learns("sketch data.parquet --task ica -o ica.sketch", "learn ica ica.sketch -o model.json")
def ica(
    sketch: Source,
    k: Annotated[int | None, option("Number of sources to keep; by default all.", "--components", "-k", min=1)] = None,
    seed: Seed = 0,
    budget: Budget = None,
) -> Learned:
    """Find independent sources, from a sketch made with --task ica."""
    s = read_sketch(sketch)
    if s.features.kind != "quartic":
        raise usage(f"ICA needs quartic features, the sketch has {s.features.kind} ones: design with --task ica")
    from sketchlearn.learn import CompressiveICA

    found = _fitted(CompressiveICA(k, random_state=seed), s, "separating sources")
    return found, f"{counted(found.n_components_, 'source')}. {found.verdict_}"


@_learns("sketch data.parquet --task dictionary -k 20 -o d.sketch", "learn dictionary d.sketch -k 20 -o model.json")
def dictionary(
    sketch: Source,
    k: Annotated[int, option("Number of atoms; there may be more than columns.", "--components", "-k", min=1)],
    seed: Seed = 0,
    budget: Budget = None,
) -> Learned:
    """Find atoms of which every row combines a few, from a sketch made with --task dictionary."""
    s = read_sketch(sketch)
    if s.features.kind != "quartic":
        raise usage(
            f"a dictionary needs quartic features, the sketch has {s.features.kind} ones: design with --task dictionary"
        )
    from sketchlearn.learn import CompressiveDictionaryLearning

    found = _fitted(CompressiveDictionaryLearning(k, random_state=seed), s, f"looking for {counted(k, 'atom')}")
    return found, f"{counted(found.n_components_, 'atom')}. {found.verdict_}"


@_learns("sketch data.parquet --task nmf -o n.sketch", "learn nmf n.sketch -k 5 -o model.json")
def nmf(
    sketch: Source,
    k: Components,
    seed: Seed = 0,
    budget: Budget = None,
) -> Learned:
    """Find non-negative components, from a sketch made with --task nmf."""
    s = read_sketch(sketch)
    from sketchlearn.learn import CompressiveNMF

    found = _fitted(CompressiveNMF(k, random_state=seed), s, f"looking for {counted(k, 'component')}")
    return found, f"{counted(found.n_components_, 'component')}. {found.verdict_}"


@_learns("sketch data.parquet --task cca -o cca.sketch", "learn cca cca.sketch --target height,weight -o model.json")
def cca(
    sketch: Source,
    target: Annotated[list[str], option("Columns of the second group, separated by commas.")],
    predictors: Annotated[list[str] | None, option("Columns of the first group; by default all others.")] = None,
    k: Annotated[
        int | None, option("Number of pairs; by default the significant ones.", "--components", "-k", min=1)
    ] = None,
) -> Learned:
    """Compute canonical correlations of two groups of columns, from quadratic features."""
    s = read_sketch(sketch)
    from sketchlearn.learn import CompressiveCCA

    wanted, chosen = _both(s, target, predictors)
    found = CompressiveCCA("auto" if k is None else k).fit_sketch(s, wanted, chosen)
    first = ", ".join(f"{r:.4f}" for r in found.correlations_[:5])
    return found, f"correlations {first}. {found.verdict_}"


@_learns(
    "sketch data.parquet --task gmm -o all.sketch",
    "learn mixture-regression all.sketch --target price -o model.json",
    name="mixture-regression",
)
def mixture_regression(
    sketch: Source,
    target: Annotated[list[str], option("Columns to predict, separated by commas.")],
    predictors: Annotated[
        list[str] | None, option("Columns to predict from, separated by commas; by default all others.")
    ] = None,
    k: Annotated[int | None, option("Number of components.", "--components", "-k", min=1)] = None,
    seed: Seed = 0,
    budget: Budget = None,
) -> Learned:
    """Learn the distribution of some columns given others, from a sketch for mixtures."""
    s = read_sketch(sketch)
    from sketchlearn.learn import CompressiveMixtureRegressor

    wanted, chosen = _both(s, target, predictors)
    covariance = "full" if s.features.as_embedded is None else "diag"  # what the sketch was made for
    estimator = CompressiveMixtureRegressor("auto" if k is None else k, covariance=covariance, random_state=seed)
    with working("fitting a mixture"):
        found = estimator.fit_sketch(s, wanted, chosen)
    columns, components = counted(found.n_features_in_, "column"), counted(found.n_components_, "component")
    line = f"{','.join(target)} from {columns}, {components}"
    return found, f"{line}. {found.verdict_}"


@_learns("sketch data.parquet --task subspaces -o s.sketch", "learn subspaces s.sketch -k 3 --dim 2 -o model.json")
def subspaces(
    sketch: Source,
    k: Annotated[int, option("Number of subspaces.", "-k", "--subspaces", min=1)],
    dim: Annotated[int, option("Dimension of each subspace.")] = 1,
    seed: Seed = 0,
    budget: Budget = None,
) -> Learned:
    """Find linear subspaces that the rows lie near, with standard errors of their angles."""
    s = read_sketch(sketch)
    from sketchlearn.learn import CompressiveSubspaces

    found = _fitted(CompressiveSubspaces(k, dim, random_state=seed), s, f"looking for {k} subspaces")
    return found, f"{counted(k, 'subspace')} of dimension {dim}. {found.verdict_}"


@_learns("sketch data.parquet --task anomaly -o a.sketch", "learn anomaly a.sketch --contamination 0.01 -o model.json")
def anomaly(
    sketch: Source,
    contamination: Annotated[
        float, option("Share of normal rows that may be called anomalies.", "--contamination", "--false-alarms")
    ] = 0.05,
) -> Learned:
    """Learn distances from normal rows, to find anomalies; from a sketch made with --task anomaly."""
    if not 0 < contamination < 1:
        raise usage(f"--contamination {contamination}: choose a share above 0 and below 1")
    s = read_sketch(sketch)
    if s.features.kind not in ("embedded", "quadratic"):
        raise usage(f"anomalies need a sketch made with --task anomaly, this one has {s.features.kind} features")
    from sketchlearn.learn import CompressiveAnomalyDetector

    found = _fitted(CompressiveAnomalyDetector(contamination=contamination), s, "measuring distances")
    return found, found.verdict_


@_learns("learn verifier background.parquet -k 32 --enroll speakers.parquet -o model.json")
def verifier(
    table: Annotated[str, typer.Argument(help="A table with one sketch per background speaker, or a sketch.")],
    k: Components,
    enroll: Annotated[str | None, option("A table with one sketch per speaker to enrol.")] = None,
    dependence: Annotated[float, option("Number of consecutive rows that count as one independent row.")] = 1.0,
    seed: Seed = 0,
    budget: Budget = None,
) -> Learned:
    """Learn a background model and enrol speakers, from tables with one sketch per speaker."""
    from sketchlearn.learn import CompressiveVerifier
    from sketchlearn.sketches import SketchTable

    background: Any = SketchTable.load(table) if is_table(table) else read_sketch(table)
    people = None if enroll is None else SketchTable.load(enroll)
    found = _fitted(
        CompressiveVerifier(k, dependence=dependence, random_state=seed), background, f"fitting {k} components"
    )
    for name, one in ({} if people is None else people).items():
        found.enroll(name, one)
    count = len(found.speakers_)
    said = f"{count} speaker{'s' * (count != 1)} enrolled. {found.verdict_}"
    return found, f"background of {counted(k, 'component')}, {said}"


@_learns(
    "sketch data.parquet --task classifier --group-by species -o classes.parquet",
    "learn classifier classes.parquet -o model.json",
)
def classifier(
    table: Annotated[str, typer.Argument(help="A table with one sketch per class, from 'sketch --group-by label'.")],
    method: Annotated[
        Literal["auto", "ridge", "lda", "qda", "naive-bayes", "mixture", "mean"],
        option("How to classify; auto chooses by the features of the sketches."),
    ] = "auto",
    k: Annotated[int, option("For mixtures: components per class.", "--components", "-k", min=1)] = 1,
    covariance: Annotated[Covariance, option("For mixtures: shape of the components.")] = "full",
    balanced: Annotated[bool, option("Give all classes equal weight.")] = False,
    seed: Seed = 0,
    budget: Budget = None,
) -> Learned:
    """Learn a classifier, from a table with one sketch per class."""
    if not is_table(table) and Path(table).is_file():
        raise SketchFileError(
            f"{table}: a classifier needs a table: sketchlearn sketch DATA --task classifier --group-by X"
        )
    from sketchlearn.learn import CompressiveClassifier
    from sketchlearn.sketches import SketchTable

    estimator = CompressiveClassifier(
        method,
        n_components=k,
        covariance_type=covariance,
        class_weight="balanced" if balanced else None,
        random_state=seed,
    )
    sketches = SketchTable.load(table)
    found = _fitted(estimator, sketches, f"telling {len(sketches)} classes apart")
    return found, f"{len(found.classes_)} classes. {found.verdict_}"


def _both(s: Sketch, target: list[str], predictors: list[str] | None) -> tuple[list[int], list[int] | None]:
    """Numbers of the columns that are predicted, and of those that are predicted from."""
    from sketchlearn.plots.geometry import column_numbers

    columns = s.features.columns or tuple(str(i) for i in range(s.features.dim))
    names = names_in(predictors, "--predictors")
    chosen = None if names is None else column_numbers(names, columns)
    return column_numbers(names_in(target, "--target") or [], columns), chosen


def _fitted(estimator: Any, sketch: Any, text: str) -> Any:
    """The estimator after learning; what it would warn of is in its verdict, which is shown anyway."""
    from sklearn.exceptions import ConvergenceWarning

    with working(text), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit_sketch(sketch)
