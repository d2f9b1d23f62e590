"""A small sound TFLite decoder for tests to read, damage and run."""

from __future__ import annotations

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

Op = schema.BuiltinOperator
CODES = {"float32": 0, "int32": 2, "bool": 6, "int8": 9}  # TensorType

VOCABULARY, WIDTH, CONTEXT = 16, 8, 12


class Graph:
    """A subgraph under construction; tensors are their indices."""

    def __init__(self, model: Model, name: str) -> None:
        self.model = model
        self.made = schema.SubGraphT()
        self.made.name = name.encode()
        self.made.tensors, self.made.operators = [], []
        self.number = len(model.made.subgraphs)
        model.made.subgraphs.append(self.made)

    def tensor(self, name, shape, dtype="float32", buffer=0):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = name, list(shape), CODES[dtype]
        tensor.buffer, tensor.hasRank = buffer, True
        self.made.tensors.append(tensor)
        return len(self.made.tensors) - 1

    def constant(self, name, array):
        buffer = self.model.buffer(name, array)
        return self.tensor(name, array.shape, array.dtype.name, buffer)

    def ints(self, *values):
        name = "_".join(map(str, values))
        return self.constant(f"ints_{name}", np.array(values, np.int32))

    def op(self, code, inputs, shape, dtype="float32", **options):
        operator = schema.OperatorT()
        operator.opcodeIndex = self.model.code(code)
        operator.inputs = inputs
        operator.outputs = [self.tensor(f"t{len(self.made.tensors)}", shape, dtype)]
        for kind, value in options.items():
            table = getattr(schema, kind + "T")()
            for name, part in value.items():
                setattr(table, name, part)
            union = 2 if hasattr(schema.BuiltinOptions2, kind) else ""
            known = getattr(schema, f"BuiltinOptions{union}")
            setattr(operator, f"builtinOptions{union}Type", getattr(known, kind))
            setattr(operator, f"builtinOptions{union}", table)
        self.made.operators.append(operator)
        return operator.outputs[0]

    def finish(self, inputs, outputs, key=None):
        self.made.inputs, self.made.outputs = inputs, outputs
        if key:
            named = [(self.name(at), at) for at in inputs]
            results = ["logits" if at == outputs[-1] else None for at in outputs]
            names = [name or self.name(inputs[3 + i]) for i, name in enumerate(results)]
            self.model.signature(
                key, self.number, named, list(zip(names, outputs, strict=True))
            )

    def name(self, tensor):
        return self.made.tensors[tensor].name


class Model:
    """A model under construction; ``made`` is the schema's object to change at will."""

    def __init__(self) -> None:
        self.made = schema.ModelT()
        self.made.version = 3
        self.made.operatorCodes, self.made.subgraphs = [], []
        self.made.buffers, self.made.signatureDefs = [schema.BufferT()], []
        self._buffers: dict[str, int] = {}

    def code(self, builtin):
        for number, known in enumerate(self.made.operatorCodes):
            if known.builtinCode == builtin:
                return number
        code = schema.OperatorCodeT()
        code.builtinCode, code.version = builtin, 1
        code.deprecatedBuiltinCode = min(builtin, 127)
        self.made.operatorCodes.append(code)
        return len(self.made.operatorCodes) - 1

    def buffer(self, name, array):
        if name not in self._buffers:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(array.tobytes(), np.uint8)
            self.made.buffers.append(buffer)
            self._buffers[name] = len(self.made.buffers) - 1
        return self._buffers[name]

    def signature(self, key, number, inputs, outputs):
        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = key, number
        signature.inputs, signature.outputs = [], []
        for named, group in (
            (inputs, signature.inputs),
            (outputs, signature.outputs),
        ):
            for name, tensor in named:
                entry = schema.TensorMapT()
                entry.name, entry.tensorIndex = name, tensor
                group.append(entry)
        self.made.signatureDefs.append(signature)

    def pack(self) -> bytes:
        builder = flatbuffers.Builder(1 << 16)
        builder.Finish(self.made.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def decoder() -> Model:
    """One attention layer without projections: signatures decode and prefill_4.

    Inputs tokens i32[1, L], input_pos i32[L], mask f32[1, 1, L, T], kv_cache_k_0
    f32[1, 1, T, D]; outputs kv_cache_k_0 and logits f32[1, L, V].
    """
    model = Model()
    norms = {length: _norm(model, length) for length in (1, 4)}
    for key, length in (("decode", 1), ("prefill_4", 4)):
        _decoder_graph(model, key, length, norms[length])
    return model


def _norm(model, length):
    graph = Graph(model, f"norm_{length}")
    x = graph.tensor("x", (1, length, WIDTH))
    square = graph.op(Op.MUL, [x, x], (1, length, WIDTH), MulOptions={})
    reduce = {"keepDims": True}
    mean = graph.op(
        Op.MEAN, [square, graph.ints(2)], (1, length, 1), ReducerOptions=reduce
    )
    scale = graph.op(Op.RSQRT, [mean], (1, length, 1))
    y = graph.op(Op.MUL, [x, scale], (1, length, WIDTH), MulOptions={})
    graph.finish([x], [y])
    return graph.number


def _decoder_graph(model, key, length, norm):
    graph = Graph(model, key)
    tokens = graph.tensor("tokens", (1, length), "int32")
    positions = graph.tensor("input_pos", (length,), "int32")
    mask = graph.tensor("mask", (1, 1, length, CONTEXT))
    cache = graph.tensor("kv_cache_k_0", (1, 1, CONTEXT, WIDTH))
    weights = np.arange(VOCABULARY * WIDTH, dtype=np.float32) % 7 - 3
    table = graph.constant("weights", weights.reshape(VOCABULARY, WIDTH))
    x = _normed(graph, _embedded(graph, tokens, table, length), norm, length)
    query = (1, 1, length, WIDTH)
    update = graph.op(Op.RESHAPE, [x, graph.ints(*query)], query, ReshapeOptions={})
    begin = _begin(graph, positions)
    keys = graph.op(
        Op.DYNAMIC_UPDATE_SLICE, [cache, update, begin], (1, 1, CONTEXT, WIDTH)
    )
    y = _attended(graph, update, keys, mask, length)
    logits = graph.op(
        Op.FULLY_CONNECTED,
        [y, table, -1],
        (1, length, VOCABULARY),
        FullyConnectedOptions={"keepNumDims": True},
    )
    graph.finish([tokens, positions, mask, cache], [keys, logits], key)


def _embedded(graph, tokens, table, length):
    """Rows [1, length, WIDTH] of the table."""
    row = (1, length, WIDTH)
    flat = graph.op(
        Op.RESHAPE,
        [tokens, graph.ints(length)],
        (length,),
        "int32",
        ReshapeOptions={"newShape": [length]},
    )
    looked_up = graph.op(Op.EMBEDDING_LOOKUP, [flat, table], (length, WIDTH))
    return graph.op(Op.RESHAPE, [looked_up, graph.ints(*row)], row, ReshapeOptions={})


def _normed(graph, x, norm, length):
    """What the graph `norm` makes of x, as a composite."""
    composite = {
        "name": "odml.rms_norm",
        "decompositionSubgraphIndex": norm,
        "compositeAttributes": flexbuffers.Dumps({}),
        "version": 1,
    }
    return graph.op(
        Op.STABLEHLO_COMPOSITE,
        [x],
        (1, length, WIDTH),
        StableHLOCompositeOptions=composite,
    )


def _begin(graph, positions):
    """Where the chunk begins in the cache, int32 [4]."""
    start = graph.op(
        Op.SLICE,
        [positions, graph.ints(0), graph.ints(1)],
        (1,),
        "int32",
        SliceOptions={},
    )
    zero = graph.ints(0)
    return graph.op(
        Op.CONCATENATION,
        [zero, zero, start, zero],
        (4,),
        "int32",
        ConcatenationOptions={},
    )


def _attended(graph, query, keys, mask, length):
    """Attention to keys that are values as well: [1, length, WIDTH]."""
    shape, row = (1, 1, length, CONTEXT), (1, length, WIDTH)
    scores = graph.op(
        Op.BATCH_MATMUL, [query, keys], shape, BatchMatMulOptions={"adjY": True}
    )
    scores = graph.op(Op.ADD, [scores, mask], shape, AddOptions={})
    weight = graph.op(Op.SOFTMAX, [scores], shape, SoftmaxOptions={"beta": 1.0})
    mixed = graph.op(
        Op.BATCH_MATMUL, [weight, keys], (1, 1, length, WIDTH), BatchMatMulOptions={}
    )
    return graph.op(Op.RESHAPE, [mixed, graph.ints(*row)], row, ReshapeOptions={})
