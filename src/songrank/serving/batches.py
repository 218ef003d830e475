"""How many queries are scored at once, in bounded memory."""

from songrank.models.model_folder import ModelFolder

_SCORES = {"cpu": 2**24, "cuda": 2**28}  # scores that are held at once
_BYTES = {"cpu": 2**28, "cuda": 2**32}  # memory for what the model computes from queries
_TEXT_VALUES = 2**24  # scores, features or token vectors of texts that are held at once
_TOKEN_VALUES = 1024


def queries_at_once(folder: ModelFolder, scores: int) -> int:
    """How many users are scored at once, with this many scores per user."""
    kind = folder.device.type
    room = _BYTES.get(kind, 2**28) // max(1, folder.model.query_bytes)
    return max(1, min(_SCORES.get(kind, 2**26) // scores, room))


def texts_at_once(folder: ModelFolder) -> int:
    """How many texts are scored at once."""
    sizes, width = folder.info["sizes"], folder.info.get("vocabulary", {}).get("width", 0)
    return int(max(1, _TEXT_VALUES // max(sizes["num_labels"], sizes.get("num_features", 0), width * _TOKEN_VALUES)))
