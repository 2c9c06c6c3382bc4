"""Campaigns: one module each, found by its name.

A module has `RUNS` (how many runs make a whole campaign) and one of

    run_one(seed, index, workdir) -> dict          runs that know nothing of each other
    run_all(seed, indexes, workdir, emit) -> dict  runs in one chain; calls emit(record) for each

Each record has `ok`; `run_all` returns what the summary says besides. `summarise(records)` is
optional and gives the figures of the whole.
"""
