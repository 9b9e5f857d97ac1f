"""Small products between rows of large tables, as vector instructions: the inner loops of word2vec.

A row is `dim` numbers of a flat float32 array from some place on. word2vec asks the same things of rows time and again:
the dot products of a few rows with a few others, the updates that follow from them, and sums. Here each is written out
in LLVM's vector types, eight numbers at a time, so that every operand stays in a register while it is needed. A
compiler that is left to vectorise plain loops does not find that order: it would have to exchange two loops, and to
prove that no two rows overlap. LLVM turns the same vectors into the instructions of any processor.

`dim` is a multiple of LANES here: rows end with zeros, which stay zeros under all of them.

    rows_dot      out[j, k]  = x_j · y_k
    rows_update   x_j       += Σ_k g[j, k] y_k     and     y_k += Σ_j g[j, k] x_j (as it was)
    rows_learn    f[j, k]    = (label_k - σ(f[j, k])) weight_k
    rows_sum      target     = scale Σ_j x_j
    rows_add      x_j       += source, each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

LANES = 8
"""Numbers in a vector. Processors with longer registers are rarely faster for it: they wait for memory."""
ALIGN = 4  # bytes: rows may begin anywhere; aligned ones are as fast as if this said so
PAIR = 6
"""Up to so many y's, two x's are multiplied at once: their sums fit into sixteen registers."""

LINE = 16
"""Floats that memory gives at once."""


def padded(number: int) -> int:
    """The next multiple of LANES."""
    return -(-number // LANES) * LANES


def aligned_zeros(size: int) -> NDArray[np.float32]:
    """So many zeros, beginning where a line of memory does: rows of whole lines then never share one."""
    raw = np.zeros(4 * size + 4 * LINE, np.uint8)
    begin = -raw.ctypes.data % (4 * LINE)
    return raw[begin : begin + 4 * size].view(np.float32)


class _Code:
    """A builder of LLVM code that knows vectors of floats."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.context, self.builder, self.signature, self.arguments = context, builder, signature, arguments
        self.float, self.whole = ir.FloatType(), ir.IntType(64)
        self.vector = ir.VectorType(self.float, LANES)
        self.zero = ir.Constant(self.vector, [0.0] * LANES)
        self.fused = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(self.vector, [self.vector] * 3), f"llvm.fmuladd.v{LANES}f32"
        )

    def data(self, position: int) -> Any:
        """Where the numbers of an array argument stand."""
        kind = self.signature.args[position]
        return self.context.make_array(kind)(self.context, self.builder, self.arguments[position]).data

    def item(self, data: Any, index: Any) -> Any:
        return self.builder.load(self.builder.gep(data, [index]))

    def number(self, value: int) -> Any:
        return ir.Constant(self.whole, value)

    def at(self, data: Any, place: Any) -> Any:
        """The vector that begins at a number."""
        return self.builder.bitcast(self.builder.gep(data, [place]), self.vector.as_pointer())

    def load(self, data: Any, place: Any) -> Any:
        return self.builder.load(self.at(data, place), align=ALIGN)

    def store(self, value: Any, data: Any, place: Any) -> None:
        self.builder.store(value, self.at(data, place), align=ALIGN)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.call(self.fused, [a, b, c])

    def everywhere(self, value: Any) -> Any:
        """A vector of one number."""
        one = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
        return self.shuffle(one, one, [0] * LANES)

    def shuffle(self, a: Any, b: Any, lanes: list[int]) -> Any:
        chosen = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
        return self.builder.shuffle_vector(a, b, chosen)

    def variable(self, value: Any) -> Any:
        """A vector that loops may change; LLVM keeps it in a register."""
        room = cgutils.alloca_once(self.builder, self.vector)
        self.builder.store(value, room)
        return room

    def loop(self, stop: Any, start: int = 0, step: int = 1) -> Any:
        return cgutils.for_range_slice(self.builder, self.number(start), stop, self.number(step), self.whole, inc=True)

    def numbers(self, value: float) -> Any:
        return ir.Constant(self.vector, [value] * LANES)

    def pieces(self, dim: Any) -> Iterator[list[Any]]:
        """The places of some vectors of a row, loop by loop: four at a time, whose sums need not wait for one another,
        then one at a time. What is written for the places of each loop is its body."""
        most = self.builder.and_(dim, self.number(-4 * LANES))
        with self.loop(most, step=4 * LANES) as (place, _):
            yield [self.builder.add(place, self.number(i * LANES)) for i in range(4)]
        with cgutils.for_range_slice(self.builder, most, dim, self.number(LANES), self.whole, inc=True) as (place, _):
            yield [place]

    def sums(self, vectors: list[Any]) -> Any:
        """The sum over each of at most LANES vectors, as one vector: neighbours are added while they are folded."""
        vectors = [*vectors, *[self.zero] * (LANES - len(vectors))]
        width = 1
        while len(vectors) > 1:
            left = [lane + LANES * (lane // width % 2) - width * (lane // width % 2) for lane in range(LANES)]
            right = [lane + width for lane in left]
            vectors = [
                self.builder.fadd(self.shuffle(a, b, left), self.shuffle(a, b, right))
                for a, b in zip(vectors[::2], vectors[1::2])
            ]
            width *= 2
        return vectors[0]


def _void(*kinds: Any) -> Any:
    return types.void(*kinds)


def _rows_dot(typing: Any, x: Any, xs: Any, n: Any, y: Any, ys: Any, dim: Any, out: Any, count: Any) -> Any:
    """What numba compiles a call of `rows_dot` to."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    outputs = count.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        x, xs, y, ys, out = (code.data(position) for position in (0, 1, 3, 4, 6))
        rows, dim = arguments[2], arguments[5]
        stride = code.number(padded(outputs))
        bases = [builder.gep(y, [code.item(ys, code.number(k))]) for k in range(outputs)]

        def tile(first: Any, together: int) -> None:
            """`together` x's from `first` on, with all y's."""
            mine = [builder.gep(x, [code.item(xs, builder.add(first, code.number(i)))]) for i in range(together)]
            totals = [[code.variable(code.zero) for _ in bases] for _ in mine]
            with code.loop(dim, step=LANES) as (place, _):
                values = [code.load(row, place) for row in mine]
                for k, base in enumerate(bases):
                    other = code.load(base, place)
                    for i, value in enumerate(values):
                        total = totals[i][k]
                        builder.store(code.multiply_add(value, other, builder.load(total)), total)
            for i in range(together):
                row = builder.mul(builder.add(first, code.number(i)), stride)
                for begin in range(0, outputs, LANES):
                    some = [builder.load(total) for total in totals[i][begin : begin + LANES]]
                    code.store(code.sums(some), out, builder.add(row, code.number(begin)))

        if outputs <= PAIR:
            even = builder.and_(rows, code.number(-2))
            with code.loop(even, step=2) as (first, _):
                tile(first, 2)
            with builder.if_then(builder.icmp_signed("<", even, rows)):
                tile(even, 1)
        else:
            with code.loop(rows) as (first, _):
                tile(first, 1)
        return context.get_dummy_value()

    return _void(x, xs, types.int64, y, ys, types.int64, out, count), generate


def _rows_update(
    typing: Any, x: Any, xs: Any, n: Any, to: Any, tos: Any, y: Any, ys: Any, dim: Any, g: Any, count: Any
) -> Any:
    """What numba compiles a call of `rows_update` to."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    outputs = count.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        x, xs, to, tos, y, ys, g = (code.data(position) for position in (0, 1, 3, 4, 5, 6, 8))
        rows, dim, zero = arguments[2], arguments[7], code.number(0)
        stride = code.number(padded(outputs))
        bases = [builder.gep(y, [code.item(ys, code.number(k))]) for k in range(outputs)]

        def one() -> None:
            """A single x: its weights stay in registers."""
            row, target = builder.gep(x, [code.item(xs, zero)]), builder.gep(to, [code.item(tos, zero)])
            weights = [code.everywhere(code.item(g, code.number(k))) for k in range(outputs)]
            with code.loop(dim, step=LANES) as (place, _):
                value, others = code.load(row, place), [code.load(base, place) for base in bases]
                first, second = code.load(target, place), code.zero
                for k, (weight, other) in enumerate(zip(weights, others)):
                    if k % 2:
                        second = code.multiply_add(weight, other, second)
                    else:
                        first = code.multiply_add(weight, other, first)
                code.store(builder.fadd(first, second), target, place)
                for base, weight in zip(bases, weights):  # read again: two y's may be the same row
                    code.store(code.multiply_add(weight, value, code.load(base, place)), base, place)

        def several() -> None:
            with code.loop(dim, step=LANES) as (place, _):
                others = [code.load(base, place) for base in bases]
                changes = [code.variable(code.zero) for _ in bases]
                with code.loop(rows) as (j, _):
                    value = code.load(x, builder.add(code.item(xs, j), place))
                    target = builder.add(code.item(tos, j), place)
                    sums = [code.load(to, target), None]  # two sums: additions need not wait for one another
                    row = builder.mul(j, stride)
                    for k, other in enumerate(others):
                        weight = code.everywhere(code.item(g, builder.add(row, code.number(k))))
                        now = sums[k % 2]
                        sums[k % 2] = (
                            builder.fmul(weight, other) if now is None else code.multiply_add(weight, other, now)
                        )
                        builder.store(code.multiply_add(weight, value, builder.load(changes[k])), changes[k])
                    first, second = sums
                    code.store(first if second is None else builder.fadd(first, second), to, target)
                for base, change in zip(bases, changes):  # read again: two y's may be the same row
                    code.store(builder.fadd(code.load(base, place), builder.load(change)), base, place)

        with builder.if_else(builder.icmp_signed("==", rows, code.number(1))) as (alone, more):
            with alone:
                one()
            with more:
                several()
        return context.get_dummy_value()

    return _void(x, xs, types.int64, to, tos, y, ys, types.int64, g, count), generate


TANH = (
    (4.893525e-03, 6.372619e-04, 1.4857224e-05, 5.122297e-08, -8.6046715e-11, 2.0001879e-13, -2.7607684e-16),
    (4.893525e-03, 2.2684346e-03, 1.1853470e-04, 1.1982584e-06),
)
"""tanh x = x A(x²) / B(x²) to seven digits where |x| < 7.9, as in the library Eigen."""


def _rows_learn(typing: Any, f: Any, n: Any, labels: Any, weights: Any, begin: Any, count: Any) -> Any:
    """What numba compiles a call of `rows_learn` to."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    lanes = padded(count.literal_value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        f, labels, weights = (code.data(position) for position in (0, 2, 3))
        half, limit = code.numbers(0.5), code.numbers(7.9)

        def polynomial(square: Any, factors: tuple[float, ...]) -> Any:
            total = code.numbers(factors[-1])
            for factor in reversed(factors[:-1]):
                total = code.multiply_add(total, square, code.numbers(factor))
            return total

        with code.loop(arguments[1]) as (j, _):
            for lane in range(0, lanes, LANES):
                place = builder.add(builder.mul(j, code.number(lanes)), code.number(lane))
                label = code.load(labels, code.number(lane))
                weight = code.load(weights, builder.add(arguments[4], code.number(lane)))
                x = builder.fmul(code.load(f, place), half)
                x = builder.select(builder.fcmp_ordered("<", x, limit), x, limit)
                x = builder.select(builder.fcmp_ordered(">", x, code.numbers(-7.9)), x, code.numbers(-7.9))
                square = builder.fmul(x, x)
                above = builder.fmul(x, polynomial(square, TANH[0]))
                tanh = builder.fdiv(above, polynomial(square, TANH[1]))
                sigmoid = code.multiply_add(tanh, half, half)
                code.store(builder.fmul(builder.fsub(label, sigmoid), weight), f, place)
        return context.get_dummy_value()

    return _void(f, types.int64, labels, weights, types.int64, count), generate


def _rows_sum(typing: Any, x: Any, xs: Any, n: Any, dim: Any, target: Any, begin: Any, scale: Any) -> Any:
    """What numba compiles a call of `rows_sum` to."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        x, xs, target = (code.data(position) for position in (0, 1, 4))
        rows, dim, begin = arguments[2], arguments[3], arguments[5]
        scale = code.everywhere(arguments[6])
        for places in code.pieces(dim):
            totals = [code.variable(code.zero) for _ in places]
            with code.loop(rows) as (j, _):
                row = builder.gep(x, [code.item(xs, j)])
                for place, total in zip(places, totals):
                    builder.store(builder.fadd(builder.load(total), code.load(row, place)), total)
            for place, total in zip(places, totals):
                code.store(builder.fmul(builder.load(total), scale), target, builder.add(begin, place))
        return context.get_dummy_value()

    return _void(x, xs, types.int64, types.int64, target, types.int64, types.float32), generate


def _rows_add(typing: Any, x: Any, xs: Any, n: Any, dim: Any, source: Any, begin: Any) -> Any:
    """What numba compiles a call of `rows_add` to."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, signature, arguments)
        x, xs, source = (code.data(position) for position in (0, 1, 4))
        rows, dim, begin = arguments[2], arguments[3], arguments[5]
        for places in code.pieces(dim):
            more = [code.load(source, builder.add(begin, place)) for place in places]
            with code.loop(rows) as (j, _):
                row = builder.gep(x, [code.item(xs, j)])
                for place, value in zip(places, more):
                    code.store(builder.fadd(code.load(row, place), value), row, place)
        return context.get_dummy_value()

    return _void(x, xs, types.int64, types.int64, source, types.int64), generate


rows_dot = cast(Callable[..., None], intrinsic(prefer_literal=True)(_rows_dot))
"""rows_dot(x, xs, n, y, ys, dim, out, K): out[j·K' + k] = Σ_d x[xs[j] + d] · y[ys[k] + d] for j < n, k < K, where K' is
K padded; K is a constant of the calling code."""
rows_update = cast(Callable[..., None], intrinsic(prefer_literal=True)(_rows_update))
"""rows_update(x, xs, n, to, tos, y, ys, dim, g, K): the rows of `to` at tos[j] grow by Σ_k g[j, k] y_k, those of y by
Σ_j g[j, k] x_j. `to` may be x itself; a y that is named twice takes both changes."""
rows_learn = cast(Callable[..., None], intrinsic(prefer_literal=True)(_rows_learn))
"""rows_learn(f, n, labels, weights, begin, K): f[j, k] = (labels[k] - σ(f[j, k])) · weights[begin + k]: how far each
pair is to be moved."""
rows_sum = cast(Callable[..., None], intrinsic(_rows_sum))
"""rows_sum(x, xs, n, dim, target, begin, scale): target[begin:begin + dim] = scale · Σ_j x[xs[j]:xs[j] + dim]."""
rows_add = cast(Callable[..., None], intrinsic(_rows_add))
"""rows_add(x, xs, n, dim, source, begin): x[xs[j]:xs[j] + dim] += source[begin:begin + dim], for every j < n."""
