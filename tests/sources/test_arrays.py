"""Columns, weights, groups and conditions of arrays: by number, by field, by dataset; in memory and on disk."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.sources.stores import _blocks

pa = pytest.importorskip("pyarrow")

PHI = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 2)).astype(np.float32)
W = RNG.integers(0, 4, 3000)
G = RNG.integers(0, 5, 3000)
WIDE = np.column_stack([X[:, 0], W, X[:, 1], G]).astype(np.float32)
FIELDS = np.empty(3000, [("a", "f4"), ("b", ">f4"), ("w", "i4"), ("g", "U2"), ("e", "f4", (2,))])
FIELDS["a"], FIELDS["b"], FIELDS["w"], FIELDS["g"], FIELDS["e"] = X[:, 0], X[:, 1], W, [f"g{v}" for v in G], X
ALL = sl.sketch(X, PHI).to_bytes()


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The same columns in every kind of array."""
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    folder = tmp_path_factory.mktemp("stores")
    np.save(folder / "wide.npy", WIDE)
    for i in range(2):
        np.save(folder / f"part{i}.npy", WIDE[i * 1500 : (i + 1) * 1500])
    np.save(folder / "fields.npy", FIELDS)
    with h5py.File(folder / "wide.h5", "w") as file:
        file.create_dataset("x", data=WIDE, chunks=(700, 3), compression="gzip")
        file.create_dataset("w", data=W)
        file.create_dataset("labels", data=[f"g{v}" for v in G])
        file.create_dataset("short", data=W[:7])
    with h5py.File(folder / "compound.h5", "w") as file:
        file.create_dataset("t", data=FIELDS[["a", "b", "w", "e"]])
    with h5py.File(folder / "flat.h5", "w") as file:
        for name, column in (("c/a", X[:, 0]), ("c/b", X[:, 1]), ("w", W), ("g", [f"g{v}" for v in G])):
            file.create_dataset(name, data=column)
    group = zarr.open_group(str(folder / "wide.zarr"), mode="w")
    for name, column in (("x", WIDE), ("w", W)):
        array = group.create_array(name, shape=column.shape, chunks=(900, *column.shape[1:]), dtype=column.dtype)
        array[:] = column
    return folder


PLACES = ["memory", "wide.npy", "part?.npy", "wide.h5", "wide.zarr"]


@pytest.mark.parametrize("name", PLACES)
def test_columns_by_number(stores, name):
    data = WIDE if name == "memory" else stores / name
    for columns in ([0, 2], ["0", "2"], (np.int64(0), -2)):
        assert sl.sketch(data, PHI, columns=columns).to_bytes() == ALL
    w, i = sl.sketch(data, PHI, columns=["0", "2"], weight_column=1), np.isin(G, [1, 3])
    assert w == sl.sketch(X, PHI, sample_weight=W)
    table = sl.sketch(data, PHI, columns=[0, 2], weight_column="1", group_by=3)
    assert table.groups == [0, 1, 2, 3, 4]
    assert table[3] == sl.sketch(X[G == 3], PHI, sample_weight=W[G == 3])
    some = sl.sketch(data, PHI, columns=[0, 2], where=["1 >= 2", "3 in (1, 3)"])
    assert some == sl.sketch(X[(W >= 2) & i], PHI)
    rest = sl.sketch(data, PHI, weight_column=1, group_by=-1)  # the columns that are left are the numbers
    assert rest.union() == sl.sketch(X, PHI, sample_weight=W)
    assert sl.read(data, columns=[0, 2], where="1 > 0").names is None


@pytest.mark.parametrize("name", ["memory", "fields.npy", "compound.h5", "flat.h5"])
def test_columns_by_name(stores, name):
    data = FIELDS if name == "memory" else stores / name
    columns = ["c/a", "c/b"] if name == "flat.h5" else ["a", "b"]
    assert sl.sketch(data, PHI, columns=columns).to_bytes() == ALL
    assert sl.sketch(data, PHI, columns=columns, weight_column="w") == sl.sketch(X, PHI, sample_weight=W)
    assert sl.sketch(data, PHI, columns=columns, where="w = 2") == sl.sketch(X[W == 2], PHI)
    if name != "compound.h5":
        assert sl.sketch(data, PHI, columns=columns, group_by="g")["g2"] == sl.sketch(X[G == 2], PHI)
    if name != "flat.h5":
        assert sl.sketch(data, PHI, columns="e").to_bytes() == ALL
    assert sl.read(data, columns=columns).names == tuple(columns)


def test_datasets_next_to_the_rows(stores):
    w = sl.sketch(stores / "wide.h5", PHI, columns=[0, 2], weight_column="w", group_by="labels")
    assert w["g4"] == sl.sketch(X[G == 4], PHI, sample_weight=W[G == 4])
    z = sl.sketch(stores / "wide.zarr", PHI, dataset="x", columns=[0, 2], weight_column="w", where="w > 1")
    assert z == sl.sketch(X[W > 1], PHI, sample_weight=W[W > 1])


def test_open_datasets_take_weights_and_labels_in_memory(stores):
    h5py = pytest.importorskip("h5py")
    with h5py.File(stores / "wide.h5") as file:
        s = sl.sketch(file["x"], PHI, columns=[0, 2], sample_weight=W)
        table = sl.sketch(file["x"], PHI, columns=[0, 2], group_by=G)
    assert s == sl.sketch(X, PHI, sample_weight=W)
    assert table[1] == sl.sketch(X[G == 1], PHI)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("wide.npy", {"columns": ["a"]}, "use column numbers"),
        ("wide.npy", {"columns": ["9"]}, "no column number 9"),
        ("wide.npy", {"weight_column": "w"}, "use the number of a column"),
        ("wide.npy", {"group_by": 0}, "groups must be"),
        ("wide.npy", {"query": "SELECT 1"}, "duckdb: can query files"),
        ("wide.npy", {"dataset": "x"}, "HDF5 files and Zarr groups"),
        ("part?.npy", {"group_by": G}, "group by a column"),
        ("wide.h5", {"weight_column": "short"}, "no column 'short'"),
        ("wide.h5", {"dataset": "w"}, "has one dimension, choose such arrays with columns"),
        ("wide.h5", {"columns": ["w", "short"]}, "'w' has 3000 rows and 'short' has 7"),
        ("flat.h5", {}, "'g' holds text"),
        ("compound.h5", {"columns": ["a", "z"]}, "no column 'z'"),
        ("fields.npy", {"columns": ["a", "g"]}, "'g' holds text"),
    ],
)
def test_what_can_not_be_says_what_can(stores, name, options, message):
    with pytest.raises(ValueError, match=message):
        sl.sketch(stores / name, PHI, **options)


def test_large_chunks_do_not_become_large_blocks(stores, monkeypatch):
    from sketchlearn.sources import stores as module

    monkeypatch.setattr(module, "_MOST_BYTES", 16 * 100)
    sizes = [len(block) for _, block in module._blocks(WIDE, 50)]
    assert max(sizes) == 50
    with pytest.importorskip("h5py").File(stores / "wide.h5") as file:
        assert {len(block) for _, block in module._blocks(file["x"], 50)} == {100}  # not the 700 of a chunk
    assert sl.sketch(stores / "wide.h5", PHI, columns=[0, 2]).to_bytes() == ALL


def test_anything_that_gives_an_array():
    class Tensor:
        """What PyTorch, JAX and other libraries have in common."""

        shape = X.shape
        __dlpack__, __dlpack_device__ = X.__dlpack__, X.__dlpack_device__

    assert sl.sketch(Tensor(), PHI).to_bytes() == ALL
    assert sl.sketch(iter([Tensor(), Tensor()]), PHI).count == 6000


def test_sparse_and_masked_arrays():
    sparse = pytest.importorskip("scipy.sparse")
    thin = np.where(np.abs(WIDE) > 1, WIDE, 0)
    for matrix in (sparse.csr_matrix(thin), sparse.coo_array(thin)):
        assert sl.sketch(matrix, PHI, columns=[0, 2]) == sl.sketch(thin[:, [0, 2]], PHI)
        assert sl.sketch(matrix, PHI, columns=[0, 2], group_by=G)[1] == sl.sketch(thin[G == 1][:, [0, 2]], PHI)
    masked = np.ma.masked_array(X, mask=np.abs(X) > 2)
    assert sl.sketch(masked, PHI, on_invalid="skip").skipped == int((np.abs(X) > 2).any(1).sum())


def test_batches_may_be_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"b": X[:, 1], "g": [f"g{v}" for v in G], "a": X[:, 0], "w": W})

    def batches():
        for i in range(0, 3000, 700):
            yield frame[i : i + 700]

    assert sl.sketch(batches(), PHI, columns=["a", "b"]).to_bytes() == ALL
    table = sl.sketch(batches(), PHI, columns=["a", "b"], group_by="g", weight_column="w")
    assert table["g2"] == sl.sketch(X[G == 2], PHI, sample_weight=W[G == 2])
    assert sl.sketch(pa.table(frame).to_batches(500), PHI, columns=["a", "b"]).to_bytes() == ALL
    pairs = ((frame[["a", "b"]][i : i + 700], W[i : i + 700]) for i in range(0, 3000, 700))
    assert sl.sketch(pairs, PHI) == sl.sketch(X, PHI, sample_weight=W)


def test_streams_are_looked_into_without_losing_rows():
    source = sl.read(X[i : i + 100] for i in range(0, 3000, 100))
    assert source.sample(500).shape == (500, 2)
    assert sl.sketch(source, PHI).to_bytes() == ALL
    with pytest.raises(ValueError, match="can be read only once"):
        sl.sketch(source, PHI)
    again = sl.read([X[:1000], X[1000:]])  # a list of batches can be read as often as one likes
    assert sl.sketch(again, PHI) == sl.sketch(again, PHI)


def test_wide_arrays_are_read_in_blocks_of_bounded_size(monkeypatch):
    monkeypatch.setattr("sketchlearn.sources.stores._MOST_BYTES", 8 * 50 * 7)
    array = np.arange(5000.0).reshape(100, 50)
    blocks = list(_blocks(array, 40))
    assert max(len(block) for _, block in blocks) == 7
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), array)
