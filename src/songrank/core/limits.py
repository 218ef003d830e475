"""All limits of sizes, depths and ratios, so that no input takes unbounded time or memory.

Each protects against damaged or hostile files; real inputs stay far below. ``docs/explanation/reliability.md`` lists
them.
"""

JSON_BYTES = 1 << 28
"""Size of a JSON file that songrank wrote: dataset.json, run.json, model.json, evaluations, state.json."""
STAMP_BYTES = 1 << 20
"""Files of a prepared data set below this size are verified at every opening; larger ones once per change."""
STAMPS = 10_000
"""Number of remembered verifications; the older half is forgotten beyond."""
STAMP_AGE = 2.0
"""Seconds since its last change after which the verification of a file is remembered."""
