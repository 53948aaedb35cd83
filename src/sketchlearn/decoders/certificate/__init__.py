"""What a sketch can certify about k clusters, from the sampling noise of the sketch itself.

:mod:`~sketchlearn.decoders.certificate.whitened` has the noise and the fit in its metric,
:mod:`~sketchlearn.decoders.certificate.tangent` its derivatives and standard errors,
:mod:`~sketchlearn.decoders.certificate.scores` the tests for what is missing,
:mod:`~sketchlearn.decoders.certificate.findings` what a test returns, and how one is added,
:mod:`~sketchlearn.decoders.certificate.examine` everything that is known of a fit,
:mod:`~sketchlearn.decoders.certificate.repair` what can be done about a failure, and
:mod:`~sketchlearn.decoders.certificate.certify` all of these together.
"""

from sketchlearn.decoders.certificate.certify import Certified, Certifier
from sketchlearn.decoders.certificate.examine import Examination
from sketchlearn.decoders.certificate.findings import TESTS, Exam, Finding, register_test

__all__ = ["TESTS", "Certified", "Certifier", "Exam", "Examination", "Finding", "register_test"]
