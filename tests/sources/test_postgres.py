"""A real PostgreSQL, started on a free loopback port."""

from contextlib import suppress

import numpy as np
import pytest
from postgres_server import postgres_server

import sketchlearn as sl

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def url():
    with postgres_server() as address:
        yield address


PHI = sl.FourierFeatures.draw(dim=3, size=40, scale=1.0, seed=0)
X = np.random.default_rng(0).normal(size=(3000, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def filled(url):
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE t (a real, b real, c double precision, w integer, g text, n numeric)")
        with connection.cursor().copy("COPY t FROM STDIN") as copy:
            for i, (a, b, c) in enumerate(X.astype(float).tolist()):
                copy.write_row((a, b, c, i % 3, f"g{i % 5}", None if i == 7 else i))
    return url


def test_a_query_gives_the_same_bytes(filled):
    query = "SELECT a, b, c FROM t"
    assert sl.sketch(filled, PHI, query=query).to_bytes() == sl.sketch(X, PHI).to_bytes()
    with psycopg.connect(filled) as connection:
        assert sl.sketch(connection, PHI, query=query) == sl.sketch(X, PHI)


def test_weights_groups_numeric_and_nulls(filled):
    i = np.arange(3000)
    s = sl.sketch(filled, PHI, query="SELECT a, b, c, w FROM t", weight_column="w")
    assert s == sl.sketch(X, PHI, sample_weight=i % 3)
    table = sl.sketch(filled, PHI, query="SELECT a, b, c, g FROM t;", group_by="g")
    assert table["g2"] == sl.sketch(X[i % 5 == 2], PHI)
    one = sl.FourierFeatures.draw(dim=1, size=5, scale=100.0, seed=0)
    s = sl.sketch(filled, one, query="SELECT n FROM t", on_invalid="skip")
    assert (s.count, s.skipped) == (2999, 1)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC a", "syntax error"),
        ("SELECT a FROM nowhere", "does not exist"),
        ("SELECT a, g, b FROM t", "column 'g' holds"),
        (None, "say what to read"),
        ("SELECT a, a, b FROM t", "more than one column named 'a'"),
        ("SELECT a, b FROM t WHERE a > 1e9", "no rows"),
        ("SELECT a, b, c FROM t; SELECT 1", "syntax error"),
        ("SELECT a, b, 9007199254740993 AS c FROM t", "row 0 .* column 'c' has the integer 9007199254740993"),
        ("SELECT a, b, 9007199254740993::numeric AS c FROM t", "column 'c' has the integer 9007199254740993"),
        ("SELECT a, b, 1 / w AS c FROM t", "division by zero"),
        ("SELECT a, b, now() AS c FROM t", "column 'c' holds datetime values"),
    ],
)
def test_bad_queries_are_named(filled, query, message):
    with pytest.raises(ValueError, match=message):
        sl.sketch(filled, PHI, query=query)


def test_nothing_is_written(filled):
    writing = [
        "DELETE FROM t",
        "/* a comment */ drop table t",
        "WITH gone AS (DELETE FROM t RETURNING a, b, c) SELECT * FROM gone",
        "SELECT a, b, nextval('s') AS c FROM t",
    ]
    with psycopg.connect(filled) as connection:
        connection.execute("CREATE SEQUENCE IF NOT EXISTS s")
    for query in writing:
        with pytest.raises(sl.SourceError, match=r"not a query|read-only|top level"):
            sl.sketch(filled, PHI, query=query)
    with psycopg.connect(filled) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (3000,)
        assert connection.execute("SELECT last_value, is_called FROM s").fetchone() == (1, False)


TRICKS = [
    "SELECT a, b, lo_from_bytea(0, 'x'::bytea)::bigint::float8 AS c FROM t LIMIT 5",
    "SELECT a, b, lo_create(0)::bigint::float8 AS c FROM t LIMIT 5",
    "SELECT a, b, c FROM t) AS q LIMIT 0; COMMIT; DELETE FROM t; SELECT * FROM (SELECT a, b, c FROM t",
    "SELECT a, b, c FROM t) AS q; ROLLBACK; BEGIN READ WRITE; DELETE FROM t; COMMIT; SELECT * FROM (SELECT 1",
    "SELECT a, b, (set_config('transaction_read_only', 'off', false) = 'off')::int AS c FROM t LIMIT 5",
    "SELECT a, b, (set_config('default_transaction_read_only', 'off', false) = '')::int AS c FROM t LIMIT 5",
    "SELECT a, b, wipe() AS c FROM t LIMIT 5",
    "SELECT a, b, setval('s', 77) AS c FROM t LIMIT 5",
    "SELECT a, b, c FROM t LIMIT 5 FOR UPDATE",
    "WITH x AS (INSERT INTO t SELECT * FROM t RETURNING a, b, c) SELECT * FROM x",
    "SELECT a, b, query_to_xml('DELETE FROM t', true, true, '')::text::float8 AS c FROM t LIMIT 5",
    "TABLE t; DROP TABLE t",
    "VALUES (1.0, 2.0, 3.0); DROP TABLE t",
    "SELECT a, b, c INTO copied FROM t",
    "EXPLAIN ANALYZE DELETE FROM t",
]


def _state(connection):
    counts = ("SELECT count(*) FROM t", "SELECT count(*) FROM pg_largeobject_metadata", "SELECT last_value FROM s",
              "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")  # fmt: skip
    return [connection.execute(query).fetchone() for query in counts]


@pytest.mark.parametrize("given", ["url", "connection", "autocommit", "transaction"])
def test_no_trick_writes(filled, given):
    with psycopg.connect(filled, autocommit=True) as watch:
        watch.execute("CREATE SEQUENCE IF NOT EXISTS s")
        watch.execute(
            "CREATE OR REPLACE FUNCTION wipe() RETURNS float8 LANGUAGE plpgsql AS "
            "$$ BEGIN DELETE FROM t; RETURN 1; END $$"
        )
        before = _state(watch)
        for query in TRICKS:
            with psycopg.connect(filled, autocommit=given == "autocommit") as own:
                if given == "transaction":
                    own.execute("CREATE TABLE mine (x int)")
                with suppress(ValueError, OSError):  # some are refused, some read what they may
                    sl.sketch(filled if given == "url" else own, PHI, query=query)
                if given == "transaction":  # of which the query takes nothing away, nor leaves it broken
                    assert own.execute("SELECT count(*) FROM mine").fetchone() == (0,)
                    own.rollback()
                elif given != "url":
                    assert own.execute("SHOW transaction_read_only").fetchone() == ("off",)
            assert _state(watch) == before, query
        assert watch.execute("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%'").fetchone() == (0,)


def test_comments_and_groups_without_a_name(filled):
    s = sl.sketch(filled, PHI, query="SELECT a, b, c FROM t -- all of them")
    assert s == sl.sketch(X, PHI)
    query = "SELECT a, b, c, CASE WHEN w = 0 THEN NULL ELSE w END AS g FROM t"
    table = sl.sketch(filled, PHI, query=query, group_by="g")
    assert table.counts == {1: 1000, 2: 1000, None: 1000}


def test_a_server_that_dies_in_the_middle(filled):
    source = sl.read(filled, query="SELECT i::float8 AS a FROM generate_series(1, 3000000) AS i")
    rows = source.stream(1000)
    next(rows)
    with psycopg.connect(filled, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'FETCH%sketchlearn%' "
            "AND pid <> pg_backend_pid()"
        )
    with pytest.raises(sl.SourceError, match=r"postgresql://tester@127.0.0.1:\d+/postgres: "):
        for _ in rows:
            pass


def test_passwords_are_not_in_messages():
    with pytest.raises(sl.SourceError, match="no connection") as caught:
        sl.read("postgresql://me:secret@127.0.0.1:1/x", query="SELECT 1")
    assert "secret" not in str(caught.value)
