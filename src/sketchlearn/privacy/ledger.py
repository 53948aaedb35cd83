"""What was spent on which data: a file that outlives the process, the crash and the second writer.

An entry is written, flushed to the disk and moved into place before any noise is drawn.  A crash between entry and
release costs budget and never privacy; a crash while writing leaves the old file.  Writers wait for each other on a
lock file beside it.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from sketchlearn import files
from sketchlearn.exceptions import BudgetError, LedgerFileError
from sketchlearn.privacy.composition import Spent, compose
from sketchlearn.privacy.sensitivity import RELATIONS

try:
    import fcntl
except ImportError:  # not a POSIX system: a file that only one can create stands in
    fcntl = None  # type: ignore[assignment]

FORMAT, VERSION = "sketchlearn-ledger", 1
_PATIENCE = 30.0  # seconds that a lock without fcntl is waited for


@dataclass(frozen=True)
class Entry:
    """One spending.

    Attributes
    ----------
    epsilon, delta : float
        What was spent.
    rho : float or None
        The same in zero-concentrated privacy, if it is known.
    what : str
        What was released.
    time : str
        When the entry was written, in UTC.
    """

    epsilon: float
    delta: float
    rho: float | None
    what: str
    time: str


@dataclass(frozen=True)
class Account:
    """Spendings of one dataset, and who is protected by them.

    Attributes
    ----------
    relation : str
        Which datasets are neighbours.
    records_per_user : int
        How many rows one person may have.
    entries : tuple of Entry
        In the order of spending.
    """

    relation: str
    records_per_user: int
    entries: tuple[Entry, ...]


class Ledger:
    """A budget per dataset, and what was spent of it, in a file.

    Parameters
    ----------
    path : path
        The file; made by the first spending.
    epsilon, delta : float, optional
        The budget of each dataset.  Needed for a new file; for an existing one they are read from it, and if given
        must be the same.

    Notes
    -----
    Spendings compose in the better one of two ways: by adding epsilons and deltas, or, where each is known in
    zero-concentrated privacy, by adding those and converting at the delta of the budget.

    Examples
    --------
    >>> import sketchlearn as sl, tempfile, pathlib
    >>> from sketchlearn.privacy import Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(pathlib.Path(folder) / "budget.json", epsilon=1.0)
    ...     ledger.spend("customers", 0.7, what="a first look")
    ...     print(ledger.spent("customers").epsilon, round(ledger.left("customers"), 3))
    ...     try:
    ...         ledger.spend("customers", 0.7, what="a second look")
    ...     except sl.BudgetError as error:
    ...         print("refused")
    0.7 0.3
    refused
    """

    def __init__(self, path: str | PathLike[str], epsilon: float | None = None, delta: float | None = None) -> None:
        self.path = Path(path)
        found = _read(self.path)
        if found is None:
            if epsilon is None:
                raise LedgerFileError(f"{self.path}: there is no ledger; a new one needs a budget, epsilon=")
            self.epsilon, self.delta = float(epsilon), float(delta or 0.0)
            if not (math.isfinite(self.epsilon) and self.epsilon > 0.0):
                raise ValueError(f"epsilon must be positive and finite, got {epsilon!r}")
            if not 0.0 <= self.delta < 1.0:
                raise ValueError(f"delta must be at least 0 and below 1, got {delta!r}")
            return
        self.epsilon, self.delta = found[0], found[1]
        for name, asked, there in (("epsilon", epsilon, self.epsilon), ("delta", delta, self.delta)):
            if asked is not None and float(asked) != there:
                raise ValueError(
                    f"{self.path} has a budget of {name}={there:.6g}, not {asked:.6g}: a budget is set once, "
                    "before the first release"
                )

    # -- reading -----------------------------------------------------------------------------

    @property
    def datasets(self) -> Mapping[str, Account]:
        """What was spent, by name of the data."""
        found = _read(self.path)
        return {} if found is None else found[2]

    def spent(self, dataset: str) -> Spent:
        """All that was spent on a dataset, composed."""
        account = self.datasets.get(dataset)
        return _total(account.entries if account else (), self.epsilon, self.delta)

    def left(self, dataset: str) -> float:
        """What is left of epsilon."""
        return max(0.0, self.epsilon - self.spent(dataset).epsilon)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, epsilon={self.epsilon:.6g}, delta={self.delta:.3g})"

    # -- writing -----------------------------------------------------------------------------

    def spend(
        self,
        dataset: str,
        epsilon: float,
        delta: float = 0.0,
        *,
        what: str,
        rho: float | None = None,
        relation: str = "add-remove",
        records_per_user: int = 1,
    ) -> None:
        """Write down a spending before it is made; :class:`sketchlearn.BudgetError` if it exceeds the budget.

        When this returns, the entry is on the disk.
        """
        if not isinstance(dataset, str) or not dataset:
            raise ValueError(f"dataset must be a name, got {dataset!r}")
        new = Entry(float(epsilon), float(delta), rho, what, datetime.now(UTC).isoformat(timespec="seconds"))
        _check_entry(new)
        if relation not in RELATIONS or records_per_user < 1:
            raise ValueError(f"relation={relation!r}, records_per_user={records_per_user!r}: no such neighbours")
        with _locked(self.path):
            found = _read(self.path)  # again: others may have spent since
            accounts = dict(found[2]) if found else {}
            if found and (found[0], found[1]) != (self.epsilon, self.delta):
                raise LedgerFileError(f"{self.path}: its budget was changed while this program was using it")
            account = accounts.get(dataset, Account(relation, records_per_user, ()))
            if (account.relation, account.records_per_user) != (relation, records_per_user):
                raise ValueError(
                    f"{dataset!r} is protected by {account.relation!r} with {account.records_per_user} records per "
                    f"user in {self.path}; {relation!r} with {records_per_user} can't be added to that"
                )
            entries = (*account.entries, new)
            total = _total(entries, self.epsilon, self.delta)
            # a last bit of adding decimals is not an overdraft
            if total.epsilon > self.epsilon * (1 + 1e-12) or total.delta > self.delta * (1 + 1e-12):
                before = _total(account.entries, self.epsilon, self.delta)
                raise BudgetError(
                    f"{dataset!r} has spent epsilon={before.epsilon:.6g}, delta={before.delta:.3g} of "
                    f"epsilon={self.epsilon:.6g}, delta={self.delta:.3g} ({self.path}); epsilon={new.epsilon:.6g}, "
                    f"delta={new.delta:.3g} more would make it epsilon={total.epsilon:.6g}, delta={total.delta:.3g}"
                )
            accounts[dataset] = Account(relation, records_per_user, entries)
            _write(self.path, self.epsilon, self.delta, accounts)


def _total(entries: tuple[Entry, ...], epsilon: float, delta: float) -> Spent:
    """Composed spendings: the way that fits the budget, or the smaller epsilon."""
    return compose([Spent(e.epsilon, e.delta, e.rho) for e in entries], delta)


def _check_entry(entry: Entry) -> None:
    if not (math.isfinite(entry.epsilon) and entry.epsilon > 0.0):
        raise ValueError(f"epsilon must be positive and finite, got {entry.epsilon!r}")
    if not 0.0 <= entry.delta < 1.0:
        raise ValueError(f"delta must be at least 0 and below 1, got {entry.delta!r}")
    if entry.rho is not None and not entry.rho >= 0.0:
        raise ValueError(f"rho must not be negative, got {entry.rho!r}")


# -- file ------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[float, float, dict[str, Account]] | None:
    """Budget and accounts of a file; None if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        value = json.loads(text)
        if value["format"] != FORMAT or value["version"] != VERSION:
            raise ValueError("not a ledger of this version")
        accounts = {}
        for name, account in value["datasets"].items():
            entries = tuple(Entry(**entry) for entry in account["entries"])
            for entry in entries:
                _check_entry(entry)
            if account["relation"] not in RELATIONS or account["records_per_user"] < 1:
                raise ValueError("no such neighbours")
            accounts[name] = Account(account["relation"], account["records_per_user"], entries)
        epsilon, delta = float(value["epsilon"]), float(value["delta"])
        if not (0.0 < epsilon < math.inf and 0.0 <= delta < 1.0):
            raise ValueError("not a budget")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # never read as empty: that would forget what was spent
        raise LedgerFileError(f"{path}: not a ledger ({error}); nothing is spent until that is cleared up") from None
    return epsilon, delta, accounts


def _write(path: Path, epsilon: float, delta: float, accounts: Mapping[str, Account]) -> None:
    value = {
        "format": FORMAT,
        "version": VERSION,
        "epsilon": epsilon,
        "delta": delta,
        "datasets": {name: asdict(account) for name, account in accounts.items()},
    }
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    files.write(path, text.encode())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone with the ledger, among all processes and threads that use this function."""
    path = files.followed(path)  # all links to a ledger share its lock
    if path.exists() and path.stat().st_nlink > 1:
        raise LedgerFileError(
            f"{path}: the file has several names (hard links), which would part at the next spending; remove all but "
            "one, or make the others symbolic links"
        )
    beside = path.with_name(path.name + ".lock")
    if fcntl is not None:
        with beside.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed, also by a crash
            yield
        return
    with _only_creator(beside):
        yield


@contextmanager
def _only_creator(beside: Path) -> Iterator[None]:
    """A lock by creating a file, for systems without fcntl; a crash leaves it, and a person has to remove it."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise TimeoutError(
                    f"{beside} is held by another program; if none is running, a crash left it: remove it"
                ) from None
            time.sleep(0.01)
    try:
        yield
    finally:
        beside.unlink(missing_ok=True)


def describe(ledger: Ledger) -> dict[str, Any]:
    """The ledger as values of JSON, composed."""
    out: dict[str, Any] = {"path": str(ledger.path), "epsilon": ledger.epsilon, "delta": ledger.delta, "datasets": {}}
    for name, account in ledger.datasets.items():
        total = _total(account.entries, ledger.epsilon, ledger.delta)
        out["datasets"][name] = {
            "relation": account.relation,
            "records_per_user": account.records_per_user,
            "spent": {"epsilon": total.epsilon, "delta": total.delta, "by": total.by},
            "left": max(0.0, ledger.epsilon - total.epsilon),
            "entries": [asdict(entry) for entry in account.entries],
        }
    return out
