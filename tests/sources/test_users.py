"""At most so many rows of one user: the same rows whatever their order, batches and engine."""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl
from sketchlearn.kernels import users as kernel
from sketchlearn.kernels.users import chosen, row_hashes
from sketchlearn.privacy import privatize
from sketchlearn.sources import users as users_module
from sketchlearn.sources.users import of_array, of_arrow

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")

PHI = sl.FourierFeatures.draw(dim=2, size=12, scale=1.0, seed=0)
NAMED = PHI.with_columns(["x", "y"])
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(5000, 2))
USERS = RNG.zipf(1.3, 5000) % 700
WANT = sl.sketch(ROWS, PHI, user=USERS, max_rows_per_user=3).to_bytes()
NAMED_WANT = sl.sketch(pd.DataFrame(ROWS, columns=["x", "y"]).assign(u=USERS), NAMED, user="u", max_rows_per_user=3)


def frame(order=slice(None)):
    return pd.DataFrame(ROWS[order], columns=["x", "y"]).assign(u=USERS[order])


NUMBERS = st.sampled_from([0, 1, 2, 2**26, 2**26 + 1, 2**63, 2**63 + 1, 2**64 - 1])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40), st.integers(1, 4), st.sampled_from([16, 3, 1]))
def test_the_choice_is_by_hash(pairs, most, together):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "_TOGETHER", together)
        patch.setattr(kernel, "_AT_ONCE", together)
        _check_choice(pairs, most)


def _check_choice(pairs, most):
    users, hashes = (np.array([p[i] for p in pairs], np.uint64) for i in (0, 1))
    kept = [pairs[i] for i in np.flatnonzero(chosen(users, hashes, most))]
    want = [p for u in {p[0] for p in pairs} for p in sorted(p for p in pairs if p[0] == u)[:most]]
    assert sorted(kept) == sorted(want)


@pytest.mark.parametrize("layout", ["C", "F"])
def test_hashes_of_rows_are_what_they_were(layout):
    rows = np.array([[1.5, -0.0], [np.nan, 2.0], [1.5, 0.0], [-np.nan, 2.0]], order=layout)
    found = row_hashes(rows, np.arange(4, dtype=np.uint64) // 4)
    assert found.tolist() == [_hash([1.5, 0.0]), _hash([np.nan, 2.0])] * 2
    assert row_hashes(rows.astype(np.float32), np.zeros(4, np.uint64)).tolist() == found.tolist()


def _hash(row):
    def mixed(h):
        for shift, times in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            h = (h ^ h >> shift) * times % 2**64
        return h

    h = mixed(0)
    for x in row:
        h = mixed((h * 0x9E3779B97F4A7C15 + int(np.float64(x).view(np.uint64))) % 2**64)
    return h


def test_nobody_counts_more_often(tmp_path):
    s = sl.sketch(ROWS, PHI, user=USERS, max_rows_per_user=3)
    counts = collections.Counter(USERS.tolist())
    assert s.count == sum(min(3, n) for n in counts.values())
    assert s.origin.rows_per_user == 3
    assert sl.Sketch.from_bytes(s.to_bytes()).origin == s.origin
    # removing one user removes their rows and nothing else: sketches of single users add up
    one = max(counts, key=counts.get)
    own = np.equal(USERS, one)
    rest = sl.sketch(ROWS[~own], PHI, user=USERS[~own], max_rows_per_user=3)
    alone = sl.sketch(ROWS[own], PHI, user=USERS[own], max_rows_per_user=3)
    assert alone.count == 3
    assert rest + alone == s


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("workers", [1, 2])
def test_order_and_threads_do_not_matter(seed, workers):
    order = np.random.default_rng(seed).permutation(len(ROWS))
    again = sl.sketch(ROWS[order], PHI, user=USERS[order], max_rows_per_user=3, workers=workers)
    assert again.to_bytes() == WANT


@pytest.mark.parametrize("waiting", [2**28, 20_000])
@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_files_batches_and_processes_do_not_matter(tmp_path, monkeypatch, waiting, engine):
    monkeypatch.setattr(users_module, "_WAITING", waiting)
    order = np.random.default_rng(3).permutation(len(ROWS))
    for i, part in enumerate(np.array_split(order, 5)):
        pq.write_table(pa.Table.from_pandas(frame(part)), tmp_path / f"{i}.parquet", row_group_size=97 * (i + 1))
    made = sl.sketch(tmp_path, NAMED, user="u", max_rows_per_user=3, engine=engine)
    assert made.to_bytes() == NAMED_WANT.to_bytes()
    assert made.origin.user == "u"


def test_streams_of_frames(monkeypatch):
    monkeypatch.setattr(users_module, "_WAITING", 30_000)
    stream = (frame(slice(i, i + 83)) for i in range(0, len(ROWS), 83))
    assert sl.sketch(stream, NAMED, user="u", max_rows_per_user=3).to_bytes() == NAMED_WANT.to_bytes()


def test_groups_and_users(tmp_path):
    labels = np.where(ROWS[:, 0] > 0, "a", "b")
    table = sl.sketch(ROWS, PHI, user=USERS, max_rows_per_user=3, group_by=labels)
    counts = collections.Counter(USERS.tolist())
    assert sum(table.counts.values()) == sum(min(3, n) for n in counts.values())  # of a user in all groups together
    order = np.random.default_rng(1).permutation(len(ROWS))
    mixed = frame(order).assign(g=labels[order])
    pq.write_table(pa.Table.from_pandas(mixed), tmp_path / "x.parquet", row_group_size=111)
    again = sl.sketch(tmp_path / "x.parquet", NAMED, user="u", max_rows_per_user=3, group_by="g")
    assert {k: v.sums.tolist() for k, v in again.items()} == {k: v.sums.tolist() for k, v in table.items()}


@pytest.mark.parametrize("text", ["parquet", "csv"])
def test_users_may_be_text(tmp_path, text):
    named = frame().assign(u=[f"user {u} é" for u in USERS])
    path = tmp_path / f"x.{text}"
    named.to_csv(path, index=False) if text == "csv" else named.to_parquet(path)
    s = sl.sketch(path, NAMED, user="u", max_rows_per_user=3)
    assert s == sl.sketch(named, NAMED, user="u", max_rows_per_user=3)
    assert s.count == sl.Sketch.from_bytes(WANT).count


def test_hashes_of_columns_agree():
    numbers = np.array([5, -1, 2**40, 5])
    want = of_array(numbers, 4)
    assert want[0] == want[3]
    assert len(set(want.tolist())) == 3
    for column in (pa.array(numbers), pa.array(numbers).dictionary_encode(), pa.array(numbers.astype(float))):
        assert of_arrow(pa, column, "u").tolist() == want.tolist()
    words = pa.array(["a", "", None, "a", "ab", "ba"])
    of_words = of_arrow(pa, words, "u")
    assert of_words[0] == of_words[3]
    assert len(set(of_words.tolist())) == 5
    assert of_arrow(pa, words.slice(3, 2), "u").tolist() == of_words[3:5].tolist()
    assert of_arrow(pa, words.dictionary_encode(), "u").tolist() == of_words.tolist()
    many = of_arrow(pa, pa.array([f"customer-{i}" for i in range(50_000)]), "u")
    assert len(set(many.tolist())) == 50_000


def test_a_release_protects_users():
    s = sl.sketch(ROWS, PHI, user=USERS, max_rows_per_user=3)
    record = privatize(s, 1.0, public_map=True).privacy
    assert record.records_per_user == 3
    assert "nobody has more" not in record.explain()
    with pytest.raises(ValueError, match="used up to 3 rows"):
        privatize(s, 1.0, records_per_user=2, public_map=True)
    both = s + sl.sketch(ROWS + 1, PHI, user=USERS, max_rows_per_user=2)  # one user may be in both
    assert privatize(both, 1.0, public_map=True).privacy.records_per_user == 5
    with pytest.raises(ValueError, match="depends on what is in them"):
        privatize(s, 1.0, relation="replace-one", public_map=True)
    mixed = s + sl.sketch(ROWS, PHI)
    assert privatize(mixed, 1.0, public_map=True).privacy.records_per_user == 1
    assert mixed.origin.rows_per_user is None


def test_what_makes_no_sense(tmp_path):
    with pytest.raises(ValueError, match="go together"):
        sl.sketch(ROWS, PHI, user=USERS)
    with pytest.raises(ValueError, match="go together"):
        sl.sketch(ROWS, PHI, max_rows_per_user=1)
    with pytest.raises(ValueError, match="positive integer"):
        sl.sketch(ROWS, PHI, user=USERS, max_rows_per_user=0)
    with pytest.raises(ValueError, match="can't be combined"):
        sl.sketch(ROWS, PHI, user=USERS, max_rows_per_user=1, sample_weight=np.ones(len(ROWS)))
    with pytest.raises(ValueError, match="one value per row"):
        sl.sketch(ROWS, PHI, user=USERS[:-1], max_rows_per_user=1)
    with pytest.raises(ValueError, match="decimals"):
        sl.sketch(ROWS, PHI, user=USERS + 0.5, max_rows_per_user=1)
    frame().to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="can't be resumed"):
        sl.sketch(tmp_path / "x.parquet", NAMED, user="u", max_rows_per_user=1, checkpoint=tmp_path / "point")
    with pytest.raises(ValueError, match="no column 'who'"):
        sl.sketch(frame(), NAMED, user="who", max_rows_per_user=1)
