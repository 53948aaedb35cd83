"""Drift monitors side by side: sketchlearn, whylogs, Evidently and popmon on the same pairs of days.

    pip install sketchlearn whylogs[viz] evidently popmon 'pandas<3'
    python benchmarks/monitors.py --pairs 10

Each tool tests one day against another at one false alarm in a hundred for the whole comparison: a tool that tests
every column gets a hundredth divided by the number of columns.  Counted are the pairs in which any change is reported,
the bytes that must be kept of a day to compare it later, and processor time.  whylogs and popmon make summaries;
Evidently compares rows, so it keeps them (4 bytes per value).
"""

import argparse
import json
import logging
import os
import time
import warnings

import numpy as np
import pandas as pd

ROWS, NAMES, ALPHA = 20_000, list("abcde"), 0.01
CASES = {
    "no change": {},
    "mean of one column + 0.05 sd": {"shift": 0.05},
    "spread of one column + 5 %": {"spread": 1.05},
    "correlation of two columns .5 to .4": {"correlation": 0.4},
}


def day(rng, shift=0.0, spread=1.0, correlation=0.5):
    """Five normal columns, of which the first two are correlated."""
    covariance = np.eye(5)
    covariance[0, 1] = covariance[1, 0] = correlation
    rows = rng.normal(size=(ROWS, 5)) @ np.linalg.cholesky(covariance).T
    rows[:, 2] = rows[:, 2] * spread + shift
    return pd.DataFrame(rows.astype(np.float32), columns=NAMES)


def sketches(before, after, seed):
    import sketchlearn as sl

    phi = sl.design(before[:1000].to_numpy(), n_components=5, size=200, seed=seed)
    a, b = (sl.sketch(frame.to_numpy(), phi) for frame in (before, after))
    return sl.compare(a, b).differs(ALPHA), len(a.to_bytes())


def whylogs(before, after, seed):
    import whylogs as why
    from whylogs.viz.drift.column_drift_algorithms import KS

    a, b = (why.log(pandas=frame).profile().view() for frame in (before, after))
    p = min(KS().calculate(b.get_column(name), a.get_column(name)).pvalue for name in NAMES)
    return p < ALPHA / len(NAMES), len(a.serialize())


def evidently(before, after, seed, **how):
    from evidently import Report
    from evidently.presets import DataDriftPreset

    found = Report([DataDriftPreset(**how)]).run(after, before).dict()["metrics"]
    drifted = next(m["value"]["count"] for m in found if isinstance(m["value"], dict))
    return drifted > 0, before.to_numpy().nbytes


def evidently_ks(before, after, seed):
    return evidently(before, after, seed, num_method="ks", num_threshold=ALPHA / len(NAMES))


def popmon(before, after, seed, pairs=()):
    from histogrammar.dfinterface.make_histograms import make_histograms
    from popmon.pipeline.metrics import df_stability_metrics

    before, after = (f.assign(t=pd.Timestamp(t)) for f, t in ((before, "2026-11-01"), (after, "2026-11-02")))
    features = [f"t:{name}" for name in (*NAMES, *pairs)]
    kept = make_histograms(before, features, "auto", time_axis="t", time_width="1d", time_offset="2026-11-01")
    found = df_stability_metrics(after, time_axis="t", reference_type="external", reference=kept)
    tables = found["comparisons"]
    p = [tables[name]["ref_ks_pvalue"].iloc[-1] for name in NAMES]
    p += [tables[name]["ref_chi2_pvalue"].iloc[-1] for name in pairs]
    return min(p) < ALPHA / len(p), sum(len(json.dumps(histogram.toJson())) for histogram in kept.values())


def popmon_pairs(before, after, seed):
    return popmon(before, after, seed, pairs=("a:b",))


TOOLS = {
    "sketchlearn, 200 features": sketches,
    "whylogs, KS of every column": whylogs,
    "Evidently, defaults": evidently,
    "Evidently, KS of every column": evidently_ks,
    "popmon, KS of every column": popmon,
    "popmon, and chi-square of the pair a:b": popmon_pairs,
}


def run():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--tool", default="", help="only tools whose name contains this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    os.environ["TQDM_DISABLE"] = "1"  # progress bars of popmon
    for label, tool in TOOLS.items():
        if options.tool not in label:
            continue
        start, kept, cells = time.process_time(), 0, []
        for change in CASES.values():
            hits = 0
            for pair in range(options.pairs):
                rng = np.random.default_rng(pair)
                before = day(rng)
                hit, kept = tool(before, day(rng, **change), pair)
                hits += bool(hit)
            cells.append(f"{hits} of {options.pairs}")
        seconds = (time.process_time() - start) / (len(CASES) * options.pairs)
        print(f"| {label} | {kept / 1000:,.1f} kB | {' | '.join(cells)} | {seconds:.2f} s |", flush=True)


if __name__ == "__main__":
    run()
