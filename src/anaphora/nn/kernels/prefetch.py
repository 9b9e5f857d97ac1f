"""Asking for memory before it is needed, from numba code.

A look into a large table mostly waits for memory, some hundred nanoseconds each time. A loop that has several
independent looks to make can ask for all of them first: the waiting then happens at once and not one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

READ, KEEP, DATA = 0, 3, 1  # what LLVM's prefetch takes: not to be written; stays in every cache; is no instruction


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """What numba compiles a call of `prefetch` to."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, number, number, number]),
            "llvm.prefetch.p0i8",
        )
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(function, [address, *(ir.Constant(number, value) for value in (READ, KEEP, DATA))])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


prefetch = cast(Callable[[NDArray[Any], Any], None], intrinsic(_prefetch))
"""prefetch(array, index): array[index] will be read soon. Only a hint: nothing is read, nothing can go wrong."""
