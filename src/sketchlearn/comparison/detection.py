"""Errors of decisions by a threshold: misses and false alarms, and where they are equally frequent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array


@dataclass(frozen=True, eq=False)
class DetectionErrors:
    """Error rates for all thresholds, if every score of at least the threshold is accepted.

    Attributes
    ----------
    thresholds : ndarray (t,)
        Rising.
    misses, false_alarms : ndarray (t,)
        Share of true trials that are rejected, and of false trials that are accepted.
    equal_error_rate : float
        Both shares where they are equal (between two thresholds on a straight line).
    cllr : float
        Cost of the scores as logarithms of likelihood ratios (Brümmer and du Preez, 2006). It is 0 for perfect scores,
        1 for scores without information, and larger for misleading ones.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> errors = sl.detection_errors([2.0, 3.0, 0.5, 4.0], [-1.0, 0.0, 1.0, -2.0])
    >>> errors.equal_error_rate
    0.25
    """

    thresholds: Array
    misses: Array
    false_alarms: Array
    equal_error_rate: float
    cllr: float

    def at(self, threshold: float) -> tuple[float, float]:
        """Misses and false alarms at one threshold."""
        i = min(int(np.searchsorted(self.thresholds, threshold)), len(self.thresholds) - 1)
        return float(self.misses[i]), float(self.false_alarms[i])

    def __repr__(self) -> str:
        return f"DetectionErrors(equal error rate {100 * self.equal_error_rate:.2f} %, cllr {self.cllr:.3f})"


def detection_errors(targets: npt.ArrayLike, impostors: npt.ArrayLike) -> DetectionErrors:
    """Errors by threshold from the scores of true and of false trials.

    Parameters
    ----------
    targets, impostors : array
        Scores of trials where the claim is true, and where it is false. Larger scores support the claim.

    Returns
    -------
    DetectionErrors

    Examples
    --------
    >>> import sketchlearn as sl
    >>> sl.detection_errors([1.0, 2.0], [-1.0, -2.0])
    DetectionErrors(equal error rate 0.00 %, cllr 0.318)
    """
    true, false = (np.sort(np.asarray(given, np.float64).ravel()) for given in (targets, impostors))
    if not len(true) or not len(false) or not (np.isfinite(true).all() and np.isfinite(false).all()):
        raise ValueError("detection errors need finite scores of true and of false trials, at least one of each")
    thresholds = np.append(np.unique(np.concatenate([true, false])), np.inf)
    misses = np.searchsorted(true, thresholds, "left") / len(true)
    alarms = 1.0 - np.searchsorted(false, thresholds, "left") / len(false)
    # misses rise from 0, false alarms fall to 0: they cross once
    i = int(np.argmax(misses >= alarms))
    if i == 0 or misses[i] == alarms[i]:
        equal = float(0.5 * (misses[i] + alarms[i]))
    else:
        before, after = alarms[i - 1] - misses[i - 1], misses[i] - alarms[i]
        share = before / (before + after)
        equal = float(misses[i - 1] + share * (misses[i] - misses[i - 1]))
    cost = 0.5 * float(np.mean(np.logaddexp(0, -true)) + np.mean(np.logaddexp(0, false))) / np.log(2.0)
    return DetectionErrors(thresholds, misses, alarms, equal, cost)
