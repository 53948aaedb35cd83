import itertools

import pytest
from postgres_server import postgres_server

import sketchlearn as sl

_NAMES = itertools.count()


@pytest.fixture(scope="session")
def server():
    with postgres_server() as address:
        yield address


@pytest.fixture(params=["duckdb", "postgresql"])
def place(request, tmp_path):
    """Where a new store can be: a file, or a schema of its own on a server."""
    if request.param == "duckdb":
        return str(tmp_path / "sketches.duckdb")
    import psycopg

    address, name = request.getfixturevalue("server"), f"store{next(_NAMES)}"
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{address}?options=-csearch_path%3D{name}"


@pytest.fixture
def store(place):
    return sl.Store(place)
