"""Groups of rows: bags with labels, and speakers with sessions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.datasets.draws import DIRICHLET, Labels, Seed, generator, owners, positive


@dataclass(frozen=True, eq=False)
class BagData:
    """Bags of rows: a label belongs to a bag, not to a row.

    Attributes
    ----------
    rows : ndarray (n, d)
        Rows of all bags.
    bags : ndarray (n,)
        The bag of each row.
    labels : ndarray (n_bags,)
        The class of each bag.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.bags(20, 50, dim=3, seed=0)
    >>> data.rows.shape, data.labels.shape
    ((1000, 3), (20,))
    """

    rows: Array
    bags: Labels
    labels: Labels


@dataclass(frozen=True, eq=False)
class SpeakerData:
    """Speakers as mixtures whose means move by speaker and, less, by session.

    Attributes
    ----------
    weights : ndarray (k,)
        Shares of the components, for all speakers.
    variances : ndarray (k, d)
        Of the components, for all speakers.
    means : ndarray (n_speakers, k, d)
        Means of the components of each speaker.
    session_spread : float
        Standard deviation of the movement from session to session, in units of a component's.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> world = sl.datasets.speakers(5, n_components=4, dim=3, seed=0)
    >>> world.session(2, 100, seed=1).shape
    (100, 3)
    """

    weights: Array
    variances: Array
    means: Array
    session_spread: float

    @property
    def n_speakers(self) -> int:
        """Number of speakers."""
        return len(self.means)

    def session(self, speaker: int, n_rows: int, seed: Seed = 0) -> Array:
        """Rows of one session of a speaker, (n_rows, d).

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.datasets.speakers(2, n_components=3, dim=2, seed=0).session(0, 4, seed=0).shape
        (4, 2)
        """
        rng = generator(seed)
        deviations = np.sqrt(self.variances)
        means = self.means[speaker] + self.session_spread * deviations * rng.standard_normal(self.variances.shape)
        labels = owners(n_rows, self.weights, rng)
        return np.asarray(means[labels] + deviations[labels] * rng.standard_normal((n_rows, means.shape[1])))

    def background(self, n_rows: int, seed: Seed = 0) -> tuple[Array, Labels]:
        """Rows of one session of every speaker, (n_speakers * n_rows, d), and the speaker of each row.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> rows, who = sl.datasets.speakers(3, n_components=3, dim=2, seed=0).background(10, seed=0)
        >>> rows.shape, who.shape
        ((30, 2), (30,))
        """
        rng = generator(seed)
        rows = np.concatenate([self.session(speaker, n_rows, rng) for speaker in range(self.n_speakers)])
        return rows, np.repeat(np.arange(self.n_speakers), n_rows)


def bags(
    n_bags: int, rows_per_bag: int, dim: int, *, n_classes: int = 2, n_components: int = 5, seed: Seed = 0
) -> BagData:
    """Bags of rows from one set of components; the class of a bag decides how often it uses which.

    Parameters
    ----------
    n_bags, rows_per_bag, dim : int
        Bags, rows of each, and columns.
    n_classes, n_components : int
        Classes of bags, and components that all share.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    BagData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> data = sl.datasets.bags(10, 20, dim=2, n_classes=2, seed=0)
    >>> sorted(set(data.labels.tolist()))
    [0, 1]
    """
    positive(n_bags=n_bags, rows_per_bag=rows_per_bag, dim=dim, n_classes=n_classes, n_components=n_components)
    rng = generator(seed)
    means = 3.0 * rng.standard_normal((n_components, dim))  # a few widths apart
    habits = rng.dirichlet(np.ones(n_components), n_classes)
    labels = rng.permutation(np.arange(n_bags) % n_classes)
    rows = []
    for label in labels:
        component = owners(rows_per_bag, habits[label], rng)
        rows.append(means[component] + rng.standard_normal((rows_per_bag, dim)))
    return BagData(np.concatenate(rows), np.repeat(np.arange(n_bags), rows_per_bag), np.asarray(labels, np.intp))


def speakers(
    n_speakers: int,
    n_components: int,
    dim: int,
    *,
    speaker_spread: float = 0.3,
    session_spread: float = 0.15,
    seed: Seed = 0,
) -> SpeakerData:
    """Synthetic speakers: a background mixture whose means each speaker moves.

    A substitute for speech corpora that are not free (Keriven 2017, section 5.5): it tests verification, not speech.

    Parameters
    ----------
    n_speakers, n_components, dim : int
        Speakers, components of the background, and columns.
    speaker_spread, session_spread : float
        Standard deviations of the movement of means by speaker and by session, in units of a component's.
    seed : int or numpy Generator
        Source of the randomness.

    Returns
    -------
    SpeakerData

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.datasets.speakers(6, n_components=8, dim=4, seed=0).means.shape
    (6, 8, 4)
    """
    positive(n_speakers=n_speakers, n_components=n_components, dim=dim)
    rng = generator(seed)
    background = 2.0 * rng.standard_normal((n_components, dim))  # overlapping, as the components of speech are
    variances = np.exp(rng.uniform(-0.7, 0.7, (n_components, dim)))  # a factor of two either way
    moves = rng.standard_normal((n_speakers, n_components, dim))
    means = background + speaker_spread * np.sqrt(variances) * moves
    return SpeakerData(rng.dirichlet(np.full(n_components, DIRICHLET)), variances, means, float(session_spread))
