import pytest
import pytrec_eval
import torch

from songrank.metrics import evaluate_lists

CUTS = (1, 3, 10, 30)
NAMES = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank"} | {
    f"{ours}@{k}": f"{theirs}_{k}"
    for ours, theirs in (
        ("ndcg", "ndcg_cut"),
        ("map", "map_cut"),
        ("precision", "P"),
        ("recall", "recall"),
        ("hit_rate", "success"),
    )
    for k in CUTS
}


@pytest.mark.parametrize("tied", [False, True])
def test_every_metric_agrees_with_trec_eval(tied):
    generator = torch.Generator().manual_seed(5)
    queries, longest = 60, 22
    lengths = torch.randint(1, longest + 1, (queries,), generator=generator)
    mask = torch.arange(longest) < lengths.unsqueeze(-1)
    labels = (torch.randint(0, 8, (queries, longest), generator=generator) - 4).clamp_min(0).float()
    labels[:5] = 0.0  # trec_eval gives 0 to queries without relevant documents
    if tied:
        scores = torch.randint(0, 5, (queries, longest), generator=generator).float()
    else:
        scores = torch.rand(queries, longest, generator=generator).argsort(-1).float()

    qrels, run = {}, {}
    for query in range(queries):
        # Ties go by descending name in trec_eval: names that fall along the list make that the order in memory.
        names = [f"d{longest - place:03d}" for place in range(int(lengths[query]))]
        qrels[f"q{query}"] = {name: int(label) for name, label in zip(names, labels[query].tolist(), strict=False)}
        run[f"q{query}"] = dict(zip(names, scores[query].tolist(), strict=False))
    cuts = ",".join(map(str, CUTS))
    measures = {"ndcg", "map", "recip_rank"} | {
        f"{name}.{cuts}" for name in ("ndcg_cut", "map_cut", "P", "recall", "success")
    }
    theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)

    ours = evaluate_lists(
        scores, labels, mask=mask, metrics=list(NAMES), ties="stable" if tied else "pessimistic", empty="zero",
        gain="linear",
    )  # fmt: skip
    assert ours.num_empty >= 5
    for name, trec_name in NAMES.items():
        expected = [theirs[f"q{query}"][trec_name] for query in range(queries)]
        assert ours.per_query[name].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12), name
