"""Rules for single operators whose kernels crash or abort on what they did not expect.

LiteRT's kernels answer most nonsense with an error. Those here do not; each rule was
found by running random single-operator models through LiteRT 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from litert_lm.bundle.columns import Column
from litert_lm.bundle.operators import CUSTOM_RANKS, Builtin

if TYPE_CHECKING:
    from litert_lm.bundle.columns import Bools, Ints
    from litert_lm.bundle.wiring import Edges, Wiring

FLOAT32, INT16 = 0, 7
SMALL = (3, 7, 9)
"""Element types uint8, int16 and int8."""

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
SUMS = ("ADD", "SUB", "SQUARED_DIFFERENCE")
SCALED = (*COMPARISONS, *SUMS, "BATCH_MATMUL", "QUANTIZE", "RSQRT", "SQRT")
"""Operators that take the scale of every 8 or 16 bit tensor for granted."""

# operator, field of its options, least value
LEAST_OPTIONS = (
    ("TRANSPOSE_CONV", 1, 1),  # strides
    ("TRANSPOSE_CONV", 2, 1),
    ("LOCAL_RESPONSE_NORMALIZATION", 0, 0),  # radius
)
MAX_RANGE = 1 << 26


def check_kernels(wiring: Wiring) -> None:
    """Raises ModelFileError for the first operator that breaks a rule."""
    _check_splits(wiring)
    _check_scales(wiring)
    _check_sums(wiring)
    _check_fake_quantisation(wiring)
    _check_transpositions(wiring)
    _check_options(wiring)
    _check_reversals(wiring)
    _check_ranges(wiring)
    _check_custom(wiring)


def _are(wiring: Wiring, names: tuple[str, ...]) -> Bools:
    """Which operators are among the named builtins."""
    return np.isin(wiring.builtin, [Builtin[name] for name in names])


def _option_scalars(wiring: Wiring, operators: Ints, field: int, dtype: str) -> Ints:
    """A field of the options of each operator, 0 where absent."""
    model = wiring.model
    tables = Column(model.root.source, model.operator_columns.options[operators])
    return tables.scalars(field, dtype, 0)


def _check_splits(wiring: Wiring) -> None:
    operators = np.flatnonzero(_are(wiring, ("SPLIT",)))
    num_splits = _option_scalars(wiring, operators, 0, "<i4")
    outputs = wiring.model.operator_columns.outputs.counts[operators]
    wiring.reject_operators(
        operators[num_splits != outputs], "has not one output for each split"
    )


def _check_scales(wiring: Wiring) -> None:
    scale = wiring.scales
    is_single = wiring.quantization.ranges(2, 4)[1] == 1
    valid = is_single & np.isfinite(scale) & (scale > 0)
    scaled, compared = _are(wiring, SCALED), _are(wiring, COMPARISONS)
    for edges in (wiring.inputs, wiring.outputs):
        small = _is_small(wiring, edges)
        wrong = small & scaled[edges.operator] & ~valid[edges.tensor]
        wiring.reject_operators(
            edges.operator[wrong], "has an 8 or 16 bit tensor without a sound scale"
        )
        wrong = small & compared[edges.operator] & (scale[edges.tensor] >= 1)
        wiring.reject_operators(edges.operator[wrong], "compares with a scale above 1")


def _check_sums(wiring: Wiring) -> None:
    """The kernels abort where the output's scale is tiny beside the inputs'."""
    operators = np.flatnonzero(_are(wiring, SUMS))
    left, right = (wiring.input_at(operators, slot) for slot in (0, 1))
    made = wiring.output_at(operators, 0)
    types = wiring.model.tensor_columns.type_code
    small = np.isin([types[left], types[right], types[made]], SMALL).any(axis=0)
    differ = (types[left] != types[right]) | (types[left] != types[made])
    wiring.reject_operators(operators[small & differ], "mixes element types")
    twice = 2 * np.maximum(wiring.scales[left], wiring.scales[right])
    squared = wiring.builtin[operators] == Builtin["SQUARED_DIFFERENCE"]
    real = np.where(squared, twice * twice, twice)
    room = np.where(squared, 1 << 14, np.where(types[left] == INT16, 1 << 15, 1 << 20))
    tiny = small & (real >= room * wiring.scales[made])
    wiring.reject_operators(operators[tiny], "has too small an output scale")


def _check_fake_quantisation(wiring: Wiring) -> None:
    operators = np.flatnonzero(_are(wiring, ("FAKE_QUANT",)))
    types = wiring.model.tensor_columns.type_code
    made = wiring.output_at(operators, 0)
    wrong = (types[wiring.input_at(operators, 0)] != FLOAT32) | (types[made] != FLOAT32)
    wiring.reject_operators(operators[wrong], "takes or makes no float32")


def _check_transpositions(wiring: Wiring) -> None:
    """The kernel never ends for a tensor without axes."""
    operators = np.flatnonzero(_are(wiring, ("TRANSPOSE",)))
    bare = wiring.ranks[wiring.input_at(operators, 0)] == 0
    wiring.reject_operators(operators[bare], "has no axes to exchange")


def _check_options(wiring: Wiring) -> None:
    """Options that kernels divide by or allocate from are large enough."""
    for name, field, least in LEAST_OPTIONS:
        operators = np.flatnonzero(_are(wiring, (name,)))
        values = _option_scalars(wiring, operators, field, "<i4")
        wiring.reject_operators(
            operators[values < least], f"has an option below {least}"
        )


def _check_reversals(wiring: Wiring) -> None:
    operators = np.flatnonzero(_are(wiring, ("REVERSE_V2",)))
    axes = wiring.num_elements[wiring.input_at(operators, 1)]
    wiring.reject_operators(operators[axes < 1], "has no axes to reverse")
    operators = np.flatnonzero(_are(wiring, ("REVERSE_SEQUENCE",)))
    wiring.reject_operators(operators, "may reverse more than there is")


def _check_ranges(wiring: Wiring) -> None:
    """A range of constants does not have billions of numbers."""
    for operator in np.flatnonzero(_are(wiring, ("RANGE",))).tolist():
        ends = [wiring.small_constant(it) for it in wiring.inputs.of(operator).tolist()]
        if any(end is None or not len(end) for end in ends):
            continue
        start, limit, delta = (float(end[0]) for end in ends if end is not None)
        if not abs(limit - start) <= MAX_RANGE * abs(delta):
            text = wiring.operator_text(operator)
            raise wiring.damaged(f"{text} has more than {MAX_RANGE} numbers")


def _check_custom(wiring: Wiring) -> None:
    """The executor's own kernels take float32 tensors with so many axes."""
    types = wiring.model.tensor_columns.type_code
    codes, opcode = wiring.model.operator_codes, wiring.model.operator_columns.opcode
    for operator in np.flatnonzero(_are(wiring, ("CUSTOM",))).tolist():
        ranks = CUSTOM_RANKS[codes[opcode[operator]].custom]
        for edges, least in zip((wiring.inputs, wiring.outputs), ranks, strict=True):
            tensors = edges.of(operator)
            fits = len(tensors) == len(least) and (types[tensors] == FLOAT32).all()
            if not fits or (wiring.ranks[tensors] < least).any():
                text = wiring.operator_text(operator)
                raise wiring.damaged(f"{text} has tensors that it cannot use")


def _is_small(wiring: Wiring, edges: Edges) -> Bools:
    types = wiring.model.tensor_columns.type_code
    return np.isin(types[edges.tensor], SMALL) & (edges.tensor >= 0)
