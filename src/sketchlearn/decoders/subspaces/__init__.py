"""Unions of linear subspaces from a sketch."""
