"""What was spent on which data: a file that outlives the process, the crash and the second writer.

An entry is written, flushed to the disk and moved into place before any noise is drawn.  A crash between entry and
release costs budget and never privacy; a crash while writing leaves the old file.  Writers wait for each other on a
lock file beside it.

Every entry carries a hash of itself and of all before it: an entry that was changed, moved or left out is noticed.  The
lock file keeps the last hash: a ledger that was deleted or put back to an earlier state is noticed too, until somebody
removes both.  This finds mistakes and careless edits; whoever can write the files and wants to cheat can.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import threading
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import IO, Any

from sketchlearn import files
from sketchlearn.exceptions import BudgetError, LedgerFileError
from sketchlearn.privacy.composition import Spent, arithmetic, compose
from sketchlearn.privacy.sensitivity import RELATIONS

try:
    import fcntl
except ImportError:  # not a POSIX system: a file that only one can create stands in
    fcntl = None  # type: ignore[assignment]

FORMAT, VERSION = "sketchlearn-ledger", 2
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
    margin : float or None
        Of Gaussian noise: by how much epsilon is larger because the noise is discrete.  None for other noise.
    what : str
        What was released.
    time : str
        When the entry was written, in UTC.
    """

    epsilon: float
    delta: float
    rho: float | None
    margin: float | None
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


@dataclass(frozen=True)
class _Book:
    """What a file says: budget, lines in order, and the hash after each of them (the first: of the budget alone)."""

    identity: str
    epsilon: float
    delta: float
    lines: tuple[dict[str, Any], ...]
    hashes: tuple[str, ...]

    @classmethod
    def new(cls, identity: str, epsilon: float, delta: float) -> _Book:
        return cls(identity, epsilon, delta, (), (_digest("", [identity, epsilon, delta]),))

    def with_lines(self, lines: Sequence[dict[str, Any]]) -> _Book:
        hashes = list(self.hashes)
        for line in lines:
            hashes.append(_digest(hashes[-1], line))
        return replace(self, lines=(*self.lines, *lines), hashes=tuple(hashes))

    def accounts(self) -> dict[str, Account]:
        found: dict[str, Account] = {}
        names: dict[str, str] = {}
        for line in self.lines:
            values = {k: v for k, v in line.items() if k not in ("dataset", "relation", "records_per_user")}
            name = names.setdefault(same_name(line["dataset"]), line["dataset"])
            before = found.get(name, Account(line["relation"], line["records_per_user"], ()))
            found[name] = replace(before, entries=(*before.entries, Entry(**values)))
        return found


def same_name(dataset: str) -> str:
    """What two names of one dataset have in common: all but case, spaces and forms of the same letters.

    Examples
    --------
    >>> from sketchlearn.privacy.ledger import same_name
    >>> same_name("Customers  2024") == same_name("customers2024 ")
    True
    """
    return "".join(unicodedata.normalize("NFKC", dataset).casefold().split())


class Ledger:
    """A file with a privacy budget per dataset, and what was spent of it.

    Parameters
    ----------
    path : path
        The file. It is created when something is spent for the first time.
    epsilon, delta : float, optional
        The budget of each dataset. It is needed for a new file. An existing file contains it; if you give it again, it
        must be the same.

    Notes
    -----
    Several releases are composed in the best of several ways; see :func:`sketchlearn.privacy.compose`.

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
        self.path = Path(os.path.realpath(path))  # of several names of one file, the one file
        self._last: str | None = None
        self._guard = threading.RLock()  # what was seen last is of one thread at a time
        found = self._found()
        if found is None:
            if epsilon is None:
                how = "to make a new one, give its budget (epsilon)"
                raise LedgerFileError(f"{self.path}: there is no such ledger; {how}")
            self.epsilon, self.delta = float(epsilon), float(delta or 0.0)
            if not (math.isfinite(self.epsilon) and self.epsilon > 0.0):
                raise ValueError(f"epsilon must be positive and finite, got {epsilon!r}")
            if not 0.0 <= self.delta < 1.0:
                raise ValueError(f"delta must be at least 0 and below 1, got {delta!r}")
            self.identity = secrets.token_hex(16)
            return
        self.epsilon, self.delta, self.identity = found.epsilon, found.delta, found.identity
        for name, asked, there in (("epsilon", epsilon, self.epsilon), ("delta", delta, self.delta)):
            if asked is not None and float(asked) != there:
                raise ValueError(
                    f"{self.path} has a budget of {name}={there:.6g}, not {asked:.6g}: a budget is set once, "
                    "before the first release"
                )

    # -- reading -----------------------------------------------------------------------------

    @property
    def datasets(self) -> Mapping[str, Account]:
        """What was spent, by name of the data as it was first written."""
        found = self._found()
        return {} if found is None else found.accounts()

    def account(self, dataset: str) -> Account | None:
        """What was spent on a dataset; names ignore case and spaces."""
        return _account(self.datasets, dataset)

    def spent(self, dataset: str) -> Spent:
        """What all releases of a dataset spent together."""
        account = self.account(dataset)
        return _total(account.entries if account else (), self.delta)

    def left(self, dataset: str) -> float:
        """The part of epsilon that is not spent yet."""
        return max(0.0, self.epsilon - self.spent(dataset).epsilon)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, epsilon={self.epsilon:.6g}, delta={self.delta:.3g})"

    def _found(self) -> _Book | None:
        """What the file says now; it must go on from what was seen of it before."""
        with self._guard:
            return self._read_on()

    def _read_on(self) -> _Book | None:
        witness = _witness(self.path)  # before the ledger: another program may write both, the ledger first
        book = _read(self.path)
        for seen in (self._last, witness):
            if seen is not None and book is None:
                raise LedgerFileError(
                    f"{self.path}: the ledger is missing, so what was spent is unknown; restore it, or, to start again "
                    f"with other data, remove {_beside(self.path).name} too and start the program again"
                )
            if seen is not None and book is not None and seen not in book.hashes:
                raise LedgerFileError(
                    f"{self.path}: this is not the ledger that was here before, or it is an earlier copy of it: "
                    "entries are missing. Nothing will be spent until this is resolved"
                )
        self._last = book.hashes[-1] if book is not None else self._last
        return book

    # -- writing -----------------------------------------------------------------------------

    def spend(
        self,
        dataset: str,
        epsilon: float,
        delta: float = 0.0,
        *,
        what: str,
        rho: float | None = None,
        margin: float | None = None,
        relation: str = "add-remove",
        records_per_user: int = 1,
    ) -> None:
        """Record what a release will spend, before it is made; :class:`sketchlearn.BudgetError` if that is too much.

        When this returns, the entry is on the disk.
        """
        self.spend_all(dataset, [(what, Spent(epsilon, delta, rho, margin=margin))], relation, records_per_user)

    def check(self, dataset: str, spendings: Sequence[tuple[str, Spent]], relation: str, records_per_user: int) -> None:
        """Check that planned releases together fit into the budget; :class:`sketchlearn.BudgetError` if not."""
        self.spend_all(dataset, spendings, relation, records_per_user, write=False)

    def spend_all(
        self,
        dataset: str,
        spendings: Sequence[tuple[str, Spent]],
        relation: str,
        records_per_user: int,
        *,
        write: bool = True,
    ) -> None:
        """Record what several releases will spend: all of them or, if they exceed the budget, none."""
        if not isinstance(dataset, str) or not same_name(dataset):
            raise ValueError(f"dataset must be a name, got {dataset!r}")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        new = tuple(Entry(float(s.epsilon), float(s.delta), s.rho, s.margin, what, now) for what, s in spendings)
        for entry in new:
            _check_entry(entry)
        if relation not in RELATIONS or records_per_user < 1:
            raise ValueError(f"relation={relation!r}, records_per_user={records_per_user!r}: no such neighbours")
        with self._guard, _locked(self.path) as lock:
            found = self._found()  # again: others may have spent since
            if found is not None and (found.epsilon, found.delta) != (self.epsilon, self.delta):
                raise LedgerFileError(f"{self.path}: its budget was changed while this program was using it")
            if found is not None and self.path.stat().st_nlink > 1:
                raise LedgerFileError(f"{self.path}: has a second name (a hard link), so the two names could diverge")
            book = found or _Book.new(self.identity, self.epsilon, self.delta)
            self.identity = book.identity
            account = _account(book.accounts(), dataset) or Account(relation, records_per_user, ())
            if (account.relation, account.records_per_user) != (relation, records_per_user):
                raise ValueError(
                    f"{dataset!r} is protected by {account.relation!r} with {account.records_per_user} records per "
                    f"user in {self.path}; {relation!r} with {records_per_user} can't be added to that"
                )
            total = _total((*account.entries, *new), self.delta)
            # a last bit of adding decimals is not an overdraft
            if total.epsilon > self.epsilon * (1 + 1e-12) or total.delta > self.delta * (1 + 1e-12):
                before = _total(account.entries, self.delta)
                more = math.fsum(e.epsilon for e in new), math.fsum(e.delta for e in new)
                raise BudgetError(
                    f"{dataset!r} has a budget of epsilon={self.epsilon:.6g}, delta={self.delta:.3g} ({self.path}). "
                    f"It has spent epsilon={before.epsilon:.6g}, delta={before.delta:.3g}. With this release of "
                    f"epsilon={more[0]:.6g}, delta={more[1]:.3g}, all releases together would spend "
                    f"epsilon={total.epsilon:.6g}, delta={total.delta:.3g}"
                )
            if not write:
                return
            who = {"dataset": dataset, "relation": relation, "records_per_user": int(records_per_user)}
            book = book.with_lines([{**who, **asdict(entry)} for entry in new])
            _write(self.path, book)
            self._last = book.hashes[-1]
            if lock is not None:
                lock.seek(0)
                lock.truncate()
                lock.write(self._last)
                lock.flush()


def _account(accounts: Mapping[str, Account], dataset: str) -> Account | None:
    wanted = same_name(dataset)
    return next((account for name, account in accounts.items() if same_name(name) == wanted), None)


def _total(entries: Sequence[Entry], delta: float) -> Spent:
    """Composed spendings."""
    return compose([_spent(entry) for entry in entries], delta)


def _spent(entry: Entry) -> Spent:
    return Spent(entry.epsilon, entry.delta, entry.rho, margin=entry.margin)


def _check_entry(entry: Entry) -> None:
    if not (math.isfinite(entry.epsilon) and entry.epsilon > 0.0):
        raise ValueError(f"epsilon must be positive and finite, got {entry.epsilon!r}")
    if not 0.0 <= entry.delta < 1.0:
        raise ValueError(f"delta must be at least 0 and below 1, got {entry.delta!r}")
    for name in ("rho", "margin"):
        value = getattr(entry, name)
        if value is not None and not 0.0 <= value < math.inf:
            raise ValueError(f"{name} must not be negative, got {value!r}")


# -- file ------------------------------------------------------------------------------------


def _digest(before: str, value: Any) -> str:
    """The hash of a line and of all lines before it."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def _read(path: Path) -> _Book | None:
    """The book in a file; None if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        value = json.loads(text)
        if value["format"] != FORMAT or value["version"] != VERSION:
            raise ValueError("not a ledger of this version")
        epsilon, delta = float(value["epsilon"]), float(value["delta"])
        if not (0.0 < epsilon < math.inf and 0.0 <= delta < 1.0):
            raise ValueError("not a budget")
        book = _Book.new(str(value["identity"]), epsilon, delta)
        book = book.with_lines([{k: v for k, v in line.items() if k != "hash"} for line in value["entries"]])
        said = [value["start"], *(line["hash"] for line in value["entries"])]
        for number, (hash_, line) in enumerate(zip(said, book.hashes, strict=True)):
            if hash_ != line:
                where = f"entry {number}" if number else "its budget"
                raise ValueError(f"{where} was changed, or something before it: the hash does not match")
        for name, account in book.accounts().items():
            for entry in account.entries:
                _check_entry(entry)
            if not isinstance(name, str) or account.relation not in RELATIONS or account.records_per_user < 1:
                raise ValueError("no such neighbours")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # never read as empty: that would forget what was spent
        raise LedgerFileError(f"{path}: not a ledger ({error}); nothing will be spent until this is resolved") from None
    return book


def _witness(path: Path) -> str | None:
    """The last hash that was seen, which the lock file keeps; None if it keeps none."""
    try:
        text = _beside(path).read_text(encoding="ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return text if re.fullmatch("[0-9a-f]{64}", text) else None  # a crash may leave half of one


def _write(path: Path, book: _Book) -> None:
    lines = [{**line, "hash": hash_} for line, hash_ in zip(book.lines, book.hashes[1:], strict=True)]
    value = {
        "format": FORMAT,
        "version": VERSION,
        "identity": book.identity,
        "epsilon": book.epsilon,
        "delta": book.delta,
        "start": book.hashes[0],
        "entries": lines,
    }
    text = json.dumps(value, indent=1, allow_nan=False) + "\n"
    files.write(path, text.encode())


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


@contextmanager
def _locked(path: Path) -> Iterator[IO[str] | None]:
    """Alone with the ledger, among all processes and threads that use this; gives the lock file, if it stays."""
    if fcntl is not None:
        with _beside(path).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed, also by a crash
            yield lock
        return
    with _only_creator(_beside(path)):
        yield None


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
                    f"{beside} is held by another program; if none is running, it was left by a crash: remove it"
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
        total = _total(account.entries, ledger.delta)
        out["datasets"][name] = {
            "relation": account.relation,
            "records_per_user": account.records_per_user,
            "spent": {"epsilon": total.epsilon, "delta": total.delta, "by": total.by},
            "arithmetic": arithmetic([_spent(entry) for entry in account.entries], ledger.delta),
            "left": max(0.0, ledger.epsilon - total.epsilon),
            "entries": [asdict(entry) for entry in account.entries],
        }
    return out
