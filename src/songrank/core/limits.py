"""All limits of sizes, depths and ratios, so that no input takes unbounded time or memory.

Each protects against damaged or hostile files; real inputs stay far below. ``docs/explanation/reliability.md`` lists
them.
"""

JSON_BYTES = 1 << 28
"""Size of a JSON file that songrank wrote: dataset.json, run.json, model.json, evaluations, state.json."""
RECIPE_BYTES = 1 << 20
"""Size of a recipe, and of the config.yaml of a run."""
RECIPE_VALUES = 10_000
"""Number of keys and values in a recipe, where each use of a YAML alias counts again."""
RECIPE_DEPTH = 50
"""Depth of nested lists and mappings in a recipe."""
LAYERS = 1000
"""Number of hidden layers or blocks of a model."""
HISTORY_BYTES = 1 << 30
"""Size of the history of a run, metrics.jsonl."""
MEMBER_BYTES = 4 << 30
"""Uncompressed size of a compressed file, or of a member of an archive, that must be read whole: Parquet, XML."""
RATIO = 500.0
"""Uncompressed size of a source relative to its compressed size; ``--max-ratio`` raises it."""
RATIO_FREE_BYTES = 1 << 28
"""Uncompressed size up to which any ratio is accepted."""
BLANK_BYTES = 1 << 25
"""Successive bytes of blank lines in a source."""
STAMP_BYTES = 1 << 20
"""Files of a prepared data set below this size are verified at every opening; larger ones once per change."""
STAMPS = 10_000
"""Number of remembered verifications; the older half is forgotten beyond."""
STAMP_AGE = 2.0
"""Seconds since its last change after which the verification of a file is remembered."""
SOFT_SORT_ITEMS = 1 << 14
"""Items of a list with a soft sort: a matrix of their square takes 1 GB in float32."""
