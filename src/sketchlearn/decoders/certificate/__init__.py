"""What a sketch can certify about k Gaussian clusters, from the sampling noise of the sketch itself.

:mod:`~sketchlearn.decoders.certificate.whitened` has the noise and the fit in its metric,
:mod:`~sketchlearn.decoders.certificate.tangent` its derivatives and standard errors,
:mod:`~sketchlearn.decoders.certificate.scores` the tests for what is missing,
:mod:`~sketchlearn.decoders.certificate.examine` everything that is known of a fit,
:mod:`~sketchlearn.decoders.certificate.repair` what can be done about a failure, and
:mod:`~sketchlearn.decoders.certificate.certify` all of it together.
"""

from sketchlearn.decoders.certificate.certify import Certified, Certifier
from sketchlearn.decoders.certificate.examine import Examination
from sketchlearn.decoders.certificate.whitened import State

__all__ = ["Certified", "Certifier", "Examination", "State"]
