"""Sampling spelled out in float64 over the whole sorted vocabulary."""

import numpy as np

SLACK = 1e-6


def kept_ids(logits, temperature, top_k=0, top_p=1.0, min_p=0.0):
    """Ascending ids that can be drawn."""
    scaled = logits.astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    order = np.argsort(-scaled, kind="stable")
    if min_p:
        order = order[weights[order] >= min_p]
    if 0 < top_k < len(order):
        order = order[scaled[order] >= scaled[order[top_k - 1]]]
    shares = weights[order].cumsum() / weights[order].sum()
    num_kept = int((shares < top_p - SLACK).sum()) + 1 if top_p < 1 else len(order)
    return np.sort(order[:num_kept])


def reference_draw(logits, uniform, temperature, **options):
    """The token at share `uniform` of the kept ones, in the order of ids."""
    ids = kept_ids(logits, temperature, **options)
    scaled = logits[ids].astype(np.float64) / temperature
    shares = np.exp(scaled - scaled.max()).cumsum()
    return ids[np.searchsorted(shares, uniform * shares[-1], side="right")]
