"""Running sums of eight columns side by side, in vector registers.

The compiler turns loops over neighbouring columns into vector instructions, but keeps what it
gathers over the rows in memory: that costs several times the sums themselves.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 8


def _largest_sums(typing, table, others, block, n_rows, start, out):
    """``out[0, block] = max_b |P_b|`` and ``out[1, block] = max_b |P_b + others[block, b]|``.

    ``P_b = start + table[block, 0] + ... + table[block, b]`` for b < ``n_rows``, lane by lane.  The
    arrays have shapes (n_blocks, rows, LANES) and (2, n_blocks, LANES), and the same dtype.
    """

    def build(context, builder, signature, arguments):
        table, others, out = (
            context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 1, 5)
        )
        block, n_rows, start = arguments[2:5]
        number = start.type
        size = context.get_abi_sizeof(number)
        vector = ir.VectorType(number, LANES)
        bits = ir.VectorType(ir.IntType(8 * size), LANES)
        without_sign = ir.Constant(bits, [2 ** (8 * size - 1) - 1] * LANES)
        zeros = ir.Constant(vector, [0.0] * LANES)

        def at(array, first, second):
            """Where ``array[first, second]`` is."""
            strides = cgutils.unpack_tuple(builder, array.strides)
            offset = builder.add(builder.mul(first, strides[0]), builder.mul(second, strides[1]))
            place = cgutils.pointer_add(builder, array.data, offset)
            return builder.bitcast(place, vector.as_pointer())

        def keep_larger(place, value):
            """Keep the absolute value where it is larger."""
            value = builder.and_(builder.bitcast(value, bits), without_sign)
            value = builder.bitcast(value, vector)
            known = builder.load(place)
            larger = builder.fcmp_ordered(">", value, known)
            builder.store(builder.select(larger, value, known), place)

        starts = zeros
        for lane in range(LANES):
            starts = builder.insert_element(starts, start, ir.IntType(32)(lane))
        sums = cgutils.alloca_once_value(builder, starts)
        largest = [cgutils.alloca_once_value(builder, zeros) for _ in range(2)]
        with cgutils.for_range(builder, n_rows) as loop:
            row = builder.load(at(table, block, loop.index), align=size)
            total = builder.fadd(builder.load(sums), row)
            builder.store(total, sums)
            keep_larger(largest[0], total)
            other = builder.load(at(others, block, loop.index), align=size)
            keep_larger(largest[1], builder.fadd(total, other))
        for k, place in enumerate(largest):
            builder.store(builder.load(place), at(out, block.type(k), block), align=size)
        return context.get_dummy_value()

    return types.void(table, others, types.intp, types.intp, table.dtype, out), build


largest_sums: Any = intrinsic(_largest_sums)
