"""Differential privacy: noisy sketches that may be published, what they guarantee, and who has spent how much."""

from sketchlearn.privacy.composition import Spent, combine, compose, divided
from sketchlearn.privacy.continual import ContinualRelease
from sketchlearn.privacy.ledger import Account, Entry, Ledger
from sketchlearn.privacy.noise import InsecureNoiseWarning, insecure_noise
from sketchlearn.privacy.pilot import private_design, private_size
from sketchlearn.privacy.preparation import Preparation, prepare, privatize_rows
from sketchlearn.privacy.release import RepeatedReleaseWarning, WeakGuaranteeWarning, privatize
from sketchlearn.privacy.tables import privatize_table
from sketchlearn.sketches.record import PrivacyRecord

__all__ = [
    "Account", "ContinualRelease", "Entry", "InsecureNoiseWarning", "Ledger", "Preparation", "PrivacyRecord",
    "RepeatedReleaseWarning", "Spent", "WeakGuaranteeWarning", "combine", "compose", "divided", "insecure_noise",
    "prepare", "private_design", "private_size", "privatize", "privatize_rows", "privatize_table",
]  # fmt: skip
