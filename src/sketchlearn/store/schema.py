"""The tables of a store: one set of statements for DuckDB and PostgreSQL."""

from __future__ import annotations

VERSION = "1"

TABLES = (
    "CREATE TABLE IF NOT EXISTS store (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE SEQUENCE IF NOT EXISTS store_ids",
    # the feature map is kept once; cells are numbers alone
    """CREATE TABLE IF NOT EXISTS datasets (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, recipe TEXT NOT NULL, fingerprint TEXT NOT NULL,
        time_column TEXT, every TEXT, group_columns TEXT NOT NULL, created BIGINT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS labels (
        id INTEGER PRIMARY KEY, dataset INTEGER NOT NULL, labels TEXT NOT NULL, UNIQUE (dataset, labels))""",
    # what was added, so that nothing is added twice; merged: its cells were rolled up with those of other sources
    """CREATE TABLE IF NOT EXISTS sources (
        id INTEGER PRIMARY KEY, dataset INTEGER NOT NULL, identity TEXT NOT NULL, name TEXT NOT NULL,
        merged BOOLEAN NOT NULL, cells BIGINT NOT NULL, added BIGINT NOT NULL, UNIQUE (dataset, identity))""",
    # start and stop in microseconds UTC, NULL without a time; source 0: rolled up from several; {noise}: bytes that no
    # compression makes smaller
    """CREATE TABLE IF NOT EXISTS cells (
        dataset INTEGER NOT NULL, start BIGINT, stop BIGINT, label INTEGER NOT NULL, source INTEGER NOT NULL,
        weight BIGINT NOT NULL, weight_bits INTEGER NOT NULL, squared TEXT, skipped BIGINT NOT NULL,
        noise DOUBLE PRECISION NOT NULL, privacy TEXT, box {noise} NOT NULL, sums {noise} NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS journal (
        noted BIGINT NOT NULL, dataset INTEGER NOT NULL, what TEXT NOT NULL, details TEXT NOT NULL)""",
)

CELL_COLUMNS = (
    "dataset", "start", "stop", "label", "source", "weight", "weight_bits", "squared", "skipped", "noise", "privacy",
    "box", "sums",
)  # fmt: skip
NAMES = {"store", "datasets", "labels", "sources", "cells", "journal"}
