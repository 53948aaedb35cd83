"""The literature's experiments, each reproduced by one command; not part of the installed package.

    python -m experiments list                     # what there is, and how many rows are measured
    python -m experiments run NAME [--full]        # measure what is missing; resumable
    python -m experiments run NAME --only default  # measure the rows of some methods again
    python -m experiments run --all [--jobs 2]
    python -m experiments page                     # pictures and docs/experiments.md, from the rows alone

An experiment is one file in ``catalogue/``: settings, a function that measures one setting and seed, claims of the
literature as functions of the rows, and a picture.  Rows are kept in ``results/``.
"""
