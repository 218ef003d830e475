"""The formulas once more, in plain float64 loops over one list at a time; nothing here calls the package.

A list loss here is ``fn(scores, labels, at, noise, …)``, on plain Python lists of the items that are there. ``at`` are
the scores at which stop-gradient parts are computed, so that finite differences leave them alone; ``noise`` is
[samples][items].
"""

import math


def central_difference(fn, point, step=1e-5):
    """Gradient of ``fn`` (a function of a list of floats) at ``point``."""
    result = []
    for index in range(len(point)):
        up, down = list(point), list(point)
        up[index] += step
        down[index] -= step
        result.append((fn(up) - fn(down)) / (2.0 * step))
    return result


def gain_of(label, gain="exp2"):
    return 2.0**label - 1.0 if gain == "exp2" else label


def ideal_dcg(labels, k=None, gain="exp2"):
    best = sorted(labels, reverse=True)[: len(labels) if k is None else k]
    return sum(gain_of(label, gain) / math.log2(1.0 + place) for place, label in enumerate(best, start=1))


def pessimistic_rank(scores, index):
    return sum(1 for score in scores if score >= scores[index])


def ndcg(scores, labels, k=None, gain="exp2"):
    """NDCG@k with every tied item at the end of its group; 0 where nothing is relevant."""
    ideal = ideal_dcg(labels, k, gain)
    if ideal == 0.0:
        return 0.0
    total = 0.0
    for index, label in enumerate(labels):
        rank = pessimistic_rank(scores, index)
        if k is None or rank <= k:
            total += gain_of(label, gain) / math.log2(1.0 + rank)
    return total / ideal


def log_sum_exp(values):
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))


def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


# ---- the list losses


def ranknet(scores, labels, at, noise, *, sigma=1.0):
    terms = []
    for s_i, y_i in zip(scores, labels, strict=True):
        for s_j, y_j in zip(scores, labels, strict=True):
            if y_i > y_j:
                terms.append(softplus(-sigma * (s_i - s_j)))
    return sum(terms) / len(terms) if terms else 0.0


def bpr(scores, labels, at, noise, *, sigma=1.0, weight=None):
    weight = [1.0] * len(scores) if weight is None else weight
    total = norm = 0.0
    for s_i, y_i, w_i in zip(scores, labels, weight, strict=True):
        for s_j, y_j, w_j in zip(scores, labels, weight, strict=True):
            if y_i > 0 and y_j == 0:
                total += w_i * w_j * softplus(-sigma * (s_i - s_j))
                norm += w_i * w_j
    return total / norm if norm else 0.0


def label_aware_ranks(scores, labels):
    ranks = []
    for i in range(len(scores)):
        rank = 1.0
        for j in range(len(scores)):
            if scores[j] > scores[i] or (scores[j] == scores[i] and labels[j] < labels[i]):
                rank += 1.0
            elif j != i and scores[j] == scores[i] and labels[j] == labels[i]:
                rank += 0.5
        ranks.append(rank)
    return ranks


def lambdarank(scores, labels, at, noise, *, sigma=1.0, k=None, gain="exp2"):
    ideal = ideal_dcg(labels, k, gain)
    if ideal == 0.0:
        return 0.0
    inverse_discount = [
        0.0 if k is not None and rank > k else 1.0 / math.log2(1.0 + rank) for rank in label_aware_ranks(at, labels)
    ]
    total = 0.0
    for i in range(len(at)):
        for j in range(len(at)):
            if labels[i] > labels[j]:
                swap = (gain_of(labels[i], gain) - gain_of(labels[j], gain)) / ideal
                swap *= abs(inverse_discount[i] - inverse_discount[j])
                total += swap * softplus(-sigma * (scores[i] - scores[j]))
    return total


def lambda_loss(scores, labels, at, noise, *, sigma=1.0, mu=10.0, k=None, gain="exp2"):
    """Walks down the ranking; every pair of positions is looked at once, the more relevant item wins it."""
    ideal = ideal_dcg(labels, k, gain)
    if ideal == 0.0:
        return 0.0
    ranks = label_aware_ranks(at, labels)
    order = sorted(range(len(at)), key=lambda index: ranks[index])
    total = 0.0
    for place, first in enumerate(order):
        for second in order[place + 1 :]:
            if labels[first] == labels[second]:
                continue
            upper, lower = ranks[first], ranks[second]
            in_upper = 1.0 / math.log2(1.0 + upper) if k is None or upper <= k else 0.0
            in_lower = 1.0 / math.log2(1.0 + lower) if k is None or lower <= k else 0.0
            rho = in_upper - in_lower
            delta = 1.0 / math.log2(1.0 + lower - upper) - 1.0 / math.log2(2.0 + lower - upper)
            if k is not None and lower > k:
                delta /= 1.0 - 1.0 / math.log2(1.0 + lower)
            better, worse = (first, second) if labels[first] > labels[second] else (second, first)
            gap = (gain_of(labels[better], gain) - gain_of(labels[worse], gain)) / ideal
            total += (rho + mu * delta) * gap * softplus(sigma * (scores[worse] - scores[better]))
    return total


def listnet(scores, labels, at, noise):
    total = 0.0
    for s_i, y_i in zip(scores, labels, strict=True):
        total -= math.exp(y_i - log_sum_exp(labels)) * (s_i - log_sum_exp(scores))
    return total


def softmax(scores, labels, at, noise):
    if sum(labels) == 0.0:
        return 0.0
    total = 0.0
    for s_i, y_i in zip(scores, labels, strict=True):
        total -= y_i / sum(labels) * (s_i - log_sum_exp(scores))
    return total


def listmle(scores, labels, at, noise):
    total = 0.0
    for s_i, y_i in zip(scores, labels, strict=True):
        rivals = [s_j for s_j, y_j in zip(scores, labels, strict=True) if y_j <= y_i]
        total += log_sum_exp(rivals) - s_i
    return total / len(scores)


def approx_ndcg(scores, labels, at, noise, *, temperature=1.0, gain="exp2"):
    ideal = ideal_dcg(labels, gain=gain)
    if ideal == 0.0:
        return 0.0
    total = 0.0
    for i, s_i in enumerate(scores):
        rank = 1.0 + sum(sigmoid((s_j - s_i) / temperature) for j, s_j in enumerate(scores) if j != i)
        total += gain_of(labels[i], gain) / math.log2(1.0 + rank)
    return -total / ideal


def gumbel_approx_ndcg(scores, labels, at, noise, *, temperature=1.0, gain="exp2", scale=1.0):
    values = []
    for draw in noise:
        noisy = [score + scale * number for score, number in zip(scores, draw, strict=True)]
        values.append(approx_ndcg(noisy, labels, at, None, temperature=temperature, gain=gain))
    return sum(values) / len(values)


def neural_sort(scores, temperature=1.0):
    n = len(scores)
    spread = [sum(abs(s_j - s_k) for s_k in scores) for s_j in scores]
    matrix = []
    for i in range(1, n + 1):
        logits = [((n + 1 - 2 * i) * scores[j] - spread[j]) / temperature for j in range(n)]
        matrix.append([math.exp(logit - log_sum_exp(logits)) for logit in logits])
    return matrix


def sinkhorn(matrix, iterations):
    n = len(matrix)
    for _ in range(iterations):
        columns = [sum(matrix[i][j] for i in range(n)) for j in range(n)]
        matrix = [[matrix[i][j] / columns[j] for j in range(n)] for i in range(n)]
        matrix = [[value / sum(row) for value in row] for row in matrix]
    return matrix


def soft_ndcg(matrix, labels, k, gain):
    ideal = ideal_dcg(labels, k, gain)
    if ideal == 0.0:
        return 0.0
    total = 0.0
    for place, row in enumerate(matrix, start=1):
        if k is None or place <= k:
            at_place = sum(p * gain_of(label, gain) for p, label in zip(row, labels, strict=True))
            total += at_place / math.log2(1.0 + place)
    return total / ideal


def neural_ndcg(scores, labels, at, noise, *, temperature=1.0, gain="exp2", k=None, sinkhorn_iterations=30):
    return -soft_ndcg(sinkhorn(neural_sort(scores, temperature), sinkhorn_iterations), labels, k, gain)


def pirank(scores, labels, at, noise, *, temperature=1.0, gain="exp2", k=None):
    return -soft_ndcg(neural_sort(scores, temperature), labels, k, gain)


def bce(scores, labels, at, noise):
    terms = [softplus(-score) if label > 0 else softplus(score) for score, label in zip(scores, labels, strict=True)]
    return sum(terms) / len(terms)


def gbce(scores, labels, at, noise, *, t=0.75, unsampled=0, unsampled_relevant=0):
    """Of a list with further items, some of them relevant; one training example per relevant item."""
    negatives = [score for score, label in zip(scores, labels, strict=True) if label == 0]
    examples = [score for score, label in zip(scores, labels, strict=True) if label > 0]
    every_negative = len(negatives) + unsampled - unsampled_relevant
    alpha = len(negatives) / every_negative if every_negative else 1.0
    beta = alpha * (t * (1.0 - 1.0 / alpha) + 1.0 / alpha) if alpha else 1.0 - t
    total = 0.0
    for s_i in examples:
        total += (beta * softplus(-s_i) + sum(softplus(s_j) for s_j in negatives)) / (1 + len(negatives))
    return total / len(examples) if examples else 0.0


def sampled_softmax(scores, labels, at, noise, *, unsampled=0, unsampled_relevant=0, weight=None):
    """Of a list with further items, some of them relevant; ``weight`` replaces the counts."""
    if sum(labels) == 0.0:
        return 0.0
    size = len(scores) + unsampled
    relevant = sum(1 for label in labels if label > 0)
    irrelevant = len(labels) - relevant
    total = 0.0
    for i, y_i in enumerate(labels):
        if y_i == 0:
            continue
        parts = []
        for j, y_j in enumerate(labels):
            if weight is not None:
                stands_for = size * weight[j]
            elif j == i:
                stands_for = 1.0
            elif y_j > 0:
                stands_for = (relevant + unsampled_relevant - 1) / (relevant - 1)
            else:
                stands_for = (irrelevant + unsampled - unsampled_relevant) / irrelevant
            parts.append(scores[j] + math.log(stands_for))
        total += y_i / sum(labels) * (log_sum_exp(parts) - scores[i])
    return total


# ---- surrogates of 𝕀(x ≥ 0)


def squared_hinge(x, margin=1.0):
    return max(0.0, x + margin) ** 2


def smooth_hinge(x, margin=1.0):
    shifted = x + margin
    if shifted <= 0.0:
        return 0.0
    return shifted**2 / 2.0 if shifted < 1.0 else shifted - 0.5


def logistic(x, margin=1.0):
    return softplus(x) / math.log(2.0)


def sigmoid_surrogate(x, margin=1.0):
    return sigmoid(x)


SURROGATES = {
    "squared_hinge": squared_hinge,
    "smooth_hinge": smooth_hinge,
    "logistic": logistic,
    "sigmoid": sigmoid_surrogate,
}


# ---- the threshold problem


def threshold_objective(threshold, scores, weights, size, *, k, epsilon, tau1, tau2, smoothing="softplus", centre=0.0):
    """L_q(λ) of section 5, with φ the softplus or the appendix's κ."""
    total = (k + epsilon) / size * threshold + 0.5 * tau2 * (threshold - centre) ** 2
    for score, weight in zip(scores, weights, strict=True):
        x = score - threshold
        if smoothing == "softplus":
            phi = tau1 * softplus(x / tau1)
        elif x <= 0.0:
            phi = 0.0
        else:
            phi = x * x / (2.0 * tau1) if x <= tau1 else x - tau1 / 2.0
        total += weight * phi
    return total


def unsmoothed_objective(threshold, scores, *, k, epsilon):
    """The function that Lemma 2 minimises: (K + ε)λ + Σ (h − λ)₊."""
    return (k + epsilon) * threshold + sum(max(0.0, score - threshold) for score in scores)


def threshold_gradient(threshold, scores, weights, size, *, k, epsilon, tau1, tau2, smoothing="softplus", centre=0.0):
    """∇_λ L_q, by the derivative of each term."""
    total = (k + epsilon) / size + tau2 * (threshold - centre)
    for score, weight in zip(scores, weights, strict=True):
        x = (score - threshold) / tau1
        total -= weight * (sigmoid(x) if smoothing == "softplus" else min(max(x, 0.0), 1.0))
    return total
