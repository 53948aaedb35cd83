"""What a stage of the default decoder for k-means finds."""

from __future__ import annotations

from dataclasses import dataclass

from sketchlearn.decoders.certificate import Certified
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.greedy import Found
from sketchlearn.models.mixture import Mixture


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted mixture (normalised units), its misfit and noise floor, how it came about and what is known of it."""

    mixture: Mixture
    misfit: float
    floor: float
    path: str
    certified: Certified | None = None

    @classmethod
    def of(cls, found: Found, path: str = "shared width") -> Fit:
        """What a search found, with nothing known of it."""
        variance = max(float(found.state.shapes[0]), 1e-9)
        state = State.shared(found.state.weights, found.state.means, variance)
        return cls(state.mixture(), found.value, found.floor, path)

    @property
    def ratio(self) -> float:
        """Misfit over noise floor."""
        return self.misfit / self.floor

    @property
    def accepted(self) -> bool:
        """Whether the certificate is given."""
        return self.certified is not None and self.certified.passed

    @property
    def words(self) -> str:
        """The fit in words."""
        text = f"{self.path}: misfit {self.ratio:.3g} times the noise floor"
        if self.certified is None:
            return text
        failed = [f for f in self.certified.examination.findings if not f.passed]
        return text + ("; all tests pass" if not failed else "; " + "; ".join(map(str, failed)))
