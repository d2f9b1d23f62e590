"""What must hold for a TFLite model before native code sees a byte of it.

LiteRT checks the FlatBuffer and most of the graph itself and answers with an error; the
rules here are those whose breach makes LiteRT 2.3 abort, crash or hang, and a few whose
breach it would report without saying where. A model that passes may still be refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from litert_lm.bundle.calls import CALLS, check_calls
from litert_lm.bundle.kernels import check_kernels
from litert_lm.bundle.operators import ANY, ARITIES, CUSTOM_RANKS, Builtin
from litert_lm.bundle.tflite import TfliteModel, read_tflite
from litert_lm.bundle.wiring import MAX_RANK, NEVER, Wiring
from litert_lm.errors import UnsupportedModelError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from litert_lm.bundle.columns import Ints

__all__ = ["CALLS", "CUSTOM_OPERATORS", "verify_model"]

MAX_ELEMENTS = (1 << 31) - 1
"""Elements of a computed tensor; the kernels count in 32 bits."""

CUSTOM_OPERATORS = frozenset(CUSTOM_RANKS)
"""Custom operators that the executor has kernels for."""

UNSIGNED = (3, 20)
"""Element types uint8 and uint4."""


def verify_model(data: Buffer, what: str) -> TfliteModel:
    """Checks the TFLite model in ``data`` and returns it, read.

    ``what`` names the bytes in error messages. Raises ModelFileError for a damaged
    model and UnsupportedModelError for one that LiteRT's CPU runtime cannot run.
    """
    model = read_tflite(data, what)
    if model.version != 3:
        raise UnsupportedModelError(
            f"{what} has TFLite schema version {model.version}, this runtime reads 3; "
            "convert it again."
        )
    wiring = Wiring(model)
    _check_codes(model)
    _check_graphs(wiring)
    _check_tensors(wiring)
    _check_buffers(wiring)
    _check_quantization(wiring)
    _check_signatures(wiring)
    _check_counts(wiring)
    _check_order(wiring)
    check_calls(wiring)
    check_kernels(wiring)
    return model


def _check_codes(model: TfliteModel) -> None:
    for code in model.operator_codes:
        if not 0 <= code.builtin < len(Builtin):
            raise model.damaged(f"operator code {code.builtin} does not exist")
        if code.builtin == Builtin["CUSTOM"] and code.custom not in CUSTOM_OPERATORS:
            raise UnsupportedModelError(
                f"{model.what} needs the custom operator {code.custom!r}, which this "
                "runtime does not have; convert the model without it."
            )


def _check_graphs(wiring: Wiring) -> None:
    if not wiring.model.subgraphs:
        raise wiring.damaged("it has no graph")
    for graph in wiring.model.subgraphs:
        number = int(wiring.num_tensors[graph.index])
        for kind, ends in (("input", graph.inputs), ("output", graph.outputs)):
            if ends and not 0 <= min(ends) <= max(ends) < number:
                text = wiring.graph_text(graph.index)
                raise wiring.damaged(f"an {kind} of {text} is no tensor of it")


def _check_buffers(wiring: Wiring) -> None:
    """All constants lie inside the file and hold what their shapes need."""
    buffers, tensors = wiring.model.buffers, wiring.model.tensor_columns
    size = len(wiring.model.data)
    outside = (buffers.first < 0) | (buffers.size < 0)
    outside |= buffers.first > size - buffers.size
    if outside.any():
        number = int(np.flatnonzero(outside)[0])
        raise wiring.damaged(f"constant {number} lies outside the file")
    wiring.reject_tensors(
        tensors.buffer >= len(buffers), "has a buffer that does not exist"
    )
    needed = np.ceil(wiring.num_elements * wiring.element_bits / 8)
    differs = wiring.is_constant & (needed != buffers.size[tensors.buffer])
    # More bytes than needed overflow what EMBEDDING_LOOKUP copies rows to.
    wiring.reject_tensors(differs, "has not the bytes that its shape needs")


def _check_tensors(wiring: Wiring) -> None:
    tensors = wiring.model.tensor_columns
    wiring.reject_tensors(wiring.element_bits < 0, "has an unknown element type")
    _check_storage(wiring)
    wiring.reject_tensors(wiring.ranks > MAX_RANK, f"has more than {MAX_RANK} axes")
    negative = wiring.shapes.min(axis=1, initial=0) < 0
    wiring.reject_tensors(negative, "has a negative size")
    huge = ~wiring.is_constant & (wiring.num_elements > MAX_ELEMENTS)
    wiring.reject_tensors(huge, "has more elements than 32 bits can count")
    signatures = tensors.shape_signature
    differs = (signatures.counts != 0) & (signatures.counts != wiring.ranks)
    wiring.reject_tensors(differs, "has a shape signature of another rank")
    if signatures.values.min(initial=0) < -1:
        raise wiring.damaged("a shape signature has sizes below -1")


def _check_storage(wiring: Wiring) -> None:
    """All elements lie in this file, one after the other, and are numbers."""
    column = wiring.model.tensor_columns.column
    unsupported = (
        (wiring.element_bits == 0, "holds text or handles, not numbers"),
        (column.children(6).positions != 0, "is stored sparsely"),
        (column.scalars(10, "<u4", 0) != 0, "is stored in another file"),
    )
    for marked, reason in unsupported:
        if marked.any():
            text = wiring.tensor_text(int(np.flatnonzero(marked)[0]))
            raise UnsupportedModelError(
                f"{wiring.model.what} cannot be run here: {text} {reason}; convert it "
                "in another way."
            )


def _check_quantization(wiring: Wiring) -> None:
    """Scales are one per tensor, per slice along an axis, or per block."""
    table = wiring.quantization
    num_scales = table.ranges(2, 4)[1]
    num_zeros = table.ranges(3, 8)[1]
    axis = table.scalars(6, "<i4", 0)
    scaled = num_scales > 0
    wrong = scaled & (num_zeros != num_scales)
    wiring.reject_tensors(wrong, "has not as many zero points as scales")
    zero = table.first_numbers(3, "<i8")
    lowest, highest = _zero_limits(wiring)
    wrong = scaled & ((zero < lowest) | (zero > highest))
    wiring.reject_tensors(wrong, "has a zero point outside its type")
    wrong = scaled & ((axis < 0) | (axis >= np.maximum(wiring.ranks, 1)))
    wiring.reject_tensors(wrong, "is quantised along an axis that it does not have")
    along = wiring.shapes[np.arange(len(axis)), np.clip(axis, 0, MAX_RANK - 1)]
    wrong = scaled & (num_scales != 1) & (num_scales != along)
    wiring.reject_tensors(wrong, "has not as many scales as slices")
    kind = table.scalars(4, "u1", 0)
    wiring.reject_tensors((kind == 1) | (kind > 2), "is quantised in an unknown way")
    blocks = table.children(5)
    for tensor in np.flatnonzero(kind == 2).tolist():
        _check_blocks(wiring, tensor, int(blocks.positions[tensor]))


def _zero_limits(wiring: Wiring) -> tuple[Ints, Ints]:
    """Lowest and highest zero point of each tensor."""
    codes = wiring.model.tensor_columns.type_code
    bits = np.minimum(wiring.element_bits, 32)
    span = 1 << np.maximum(bits, 1)
    is_unsigned = np.isin(codes, UNSIGNED)
    return np.where(is_unsigned, 0, -span // 2), np.where(
        is_unsigned, span - 1, span // 2 - 1
    )


def _check_blocks(wiring: Wiring, tensor: int, position: int) -> None:
    """Scales of block-wise quantisation lie in a constant tensor of the same graph."""
    model = wiring.model
    graph = int(np.searchsorted(model.tensor_ends, tensor, "right")) - 1
    text = wiring.tensor_text(tensor)
    if not position:
        raise wiring.damaged(f"{text} is quantised in blocks that are not described")
    details = model.table(position)
    block = details.scalar(2, "i", 0)
    scales = details.scalar(0, "i", 0)
    zeros = details.scalar(1, "i", 0)
    number = int(wiring.num_tensors[graph])
    if not (0 <= scales < number and -1 <= zeros < number):
        raise wiring.damaged(f"{text} has its scales in a tensor that does not exist")
    at = int(model.tensor_ends[graph]) + scales
    needed = wiring.num_elements[tensor] / max(1, block)
    enough = wiring.is_constant[at] and wiring.num_elements[at] >= needed
    if block < 1 or int(model.tensor_columns.type_code[at]) != 1 or not enough:
        raise wiring.damaged(
            f"{text} has blocks of {block} and scales that do not fit; the scales must "
            "be a float16 constant with one for each block"
        )


def _check_signatures(wiring: Wiring) -> None:
    model = wiring.model
    keys = [signature.key for signature in model.signatures]
    if not keys:
        raise UnsupportedModelError(
            f"{model.what} has no signatures, so its inputs and outputs have no names; "
            "convert it with signatures."
        )
    if len(set(keys)) < len(keys) or "" in keys:
        raise wiring.damaged(f"its signatures {keys} are not distinct")
    for signature in model.signatures:
        graph = model.subgraphs[signature.subgraph]
        for ends, named in (
            (graph.inputs, signature.inputs),
            (graph.outputs, signature.outputs),
        ):
            numbers = [tensor.tensor for tensor in named]
            if len(ends) != len(numbers) or sorted(ends) != sorted(numbers):
                raise wiring.damaged(
                    f"signature {signature.key!r} names other tensors than its graph "
                    "takes and gives"
                )
            if len({tensor.name for tensor in named}) < len(named):
                raise wiring.damaged(f"signature {signature.key!r} uses a name twice")


def _check_counts(wiring: Wiring) -> None:
    """Each operator has the number of inputs and outputs that its kernel reads."""
    columns = wiring.model.operator_columns
    arities = [ARITIES.get(code, ANY) for code in range(len(Builtin))]
    limits = np.array([arity[:4] for arity in arities], np.int64)[wiring.builtin]
    given = columns.inputs.counts
    wrong = (given < limits[:, 0]) | (given > limits[:, 1])
    wiring.reject_operators(np.flatnonzero(wrong), "has a wrong number of inputs")
    given = columns.outputs.counts
    wrong = (given < limits[:, 2]) | (given > limits[:, 3])
    wiring.reject_operators(np.flatnonzero(wrong), "has a wrong number of outputs")
    optional = np.array([_bits(arity.optional) for arity in arities])
    inputs, outputs = wiring.inputs, wiring.outputs
    may = optional[wiring.builtin[inputs.operator]] >> np.minimum(inputs.slot, 62) & 1
    left_out = inputs.operator[(inputs.tensor < 0) & (may == 0)]
    wiring.reject_operators(left_out, "lacks an input")
    wiring.reject_operators(outputs.operator[outputs.tensor < 0], "lacks an output")


def _bits(slots: tuple[int, ...]) -> int:
    return sum(1 << slot for slot in slots)


def _check_order(wiring: Wiring) -> None:
    """Each tensor is made once, and before it is used."""
    inputs, outputs = wiring.inputs, wiring.outputs
    counts = np.bincount(outputs.tensor, minlength=int(wiring.num_tensors.sum()))
    wiring.reject_tensors(counts > 1, "is made twice")
    is_input = np.zeros(len(counts), bool)
    for graph in wiring.model.subgraphs:
        first = int(wiring.model.tensor_ends[graph.index])
        is_input[[first + tensor for tensor in graph.inputs]] = True
    given = is_input.astype(int) + wiring.is_constant + (counts > 0)
    wiring.reject_tensors(
        given > 1, "is input, constant or made by an operator at once"
    )
    made = np.where(inputs.tensor < 0, -1, wiring.made_by[inputs.tensor])
    early = inputs.operator[made >= inputs.operator]
    wiring.reject_operators(early, "uses a tensor before it is made")
    for graph in wiring.model.subgraphs:
        first = int(wiring.model.tensor_ends[graph.index])
        for tensor in graph.outputs:
            if wiring.made_by[first + tensor] == NEVER:
                text = wiring.tensor_text(first + tensor)
                raise wiring.damaged(f"nothing makes {text}, an output")
