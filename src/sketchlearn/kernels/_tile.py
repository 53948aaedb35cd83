"""A register tile: ``mr`` rows times ``nv`` vectors of frequencies, products in registers, then an epilogue.

The products are accumulated by fused multiply-adds in the order of the coordinates, so the bits depend neither on
the vector width nor on the processor.  The epilogue gets the products of the tile as vectors and adds what it makes
of them to the sums: nothing of size rows x frequencies leaves the registers.
"""

# mypy: ignore-errors
from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

I32, I64 = ir.IntType(32), ir.IntType(64)


def _shape() -> tuple[int, int, int]:
    """Lanes of a float32 vector, vectors per panel, rows per tile, from the processor numba targets."""
    name = (config.CPU_NAME or "").lower()
    if config.CPU_FEATURES is not None:
        features = {f[1:] for f in config.CPU_FEATURES.split(",") if f.startswith("+")}
    else:
        try:
            features = {k for k, on in binding.get_host_cpu_features().items() if on}
        except RuntimeError:
            features = set()
        if name and not any(tag in name for tag in ("avx512", "znver4", "znver5", "rapids", "icelake")):
            features -= {"avx512f"}
    if "avx512f" in features:
        return 16, 3, 5
    if "avx2" in features and "fma" in features:
        return 8, 2, 6
    if "neon" in features or "asimd" in features:
        return 4, 4, 4
    return 4, 2, 4


LANES, PANEL_VECTORS, TILE_ROWS = _shape()
PANEL = LANES * PANEL_VECTORS


class Vectors:
    """Short names for what an epilogue does with vectors of one precision."""

    def __init__(self, builder, bits: int) -> None:
        self.b, self.bits = builder, bits
        self.real, self.integer = (ir.FloatType(), I32) if bits == 32 else (ir.DoubleType(), I64)
        self.vec, self.ivec = ir.VectorType(self.real, LANES), ir.VectorType(self.integer, LANES)

    def constant(self, x):
        """A number in every lane."""
        return ir.Constant(self.vec, [x] * LANES)

    def whole(self, x):
        """An integer in every lane."""
        return ir.Constant(self.ivec, [x] * LANES)

    def call(self, name, *args):
        """An LLVM intrinsic on vectors."""
        fn = ir.FunctionType(self.vec, [self.vec] * len(args))
        return self.b.call(cgutils.get_or_insert_function(self.b.module, fn, f"llvm.{name}.v{LANES}f{self.bits}"), args)

    def place(self, pointer, v, element):
        """Address of the v-th vector of some element type behind a pointer."""
        address = self.b.gep(pointer, [ir.Constant(I64, v * LANES)])
        return self.b.bitcast(address, ir.VectorType(element, LANES).as_pointer())

    def broadcast(self, scalar):
        """A scalar in every lane."""
        undef = ir.Constant(self.vec, ir.Undefined)
        one = self.b.insert_element(undef, scalar, ir.Constant(I32, 0))
        return self.b.shuffle_vector(one, undef, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def tile(bits: int, mr: int, nv: int, epilogues):
    """Intrinsic ``kernel(rows, stride, panel, panel_stride, depth, a, b)`` for one tile.

    `bits`: precision of the rows and products; the panel is float32 always. `mr`, `nv`: rows and vectors of the tile.
    `epilogues`: ``epilogue(vectors, v, products, a, b)``, for the products (one vector per row) of the v-th vector, by
    the type that the pointer b points to.
    """
    real = types.float32 if bits == 32 else types.float64

    @intrinsic
    def kernel(typingctx, rows, stride, panel, panel_stride, depth, a, b):
        sig = types.void(
            types.CPointer(real), types.intp, types.CPointer(types.float32), types.intp, types.intp,
            a, b,
        )  # fmt: skip

        epilogue = epilogues[b.dtype]

        def codegen(context, builder, sig, args):
            rows, stride, panel, panel_stride, depth, a, b = args
            vectors = Vectors(builder, bits)
            sums = [[cgutils.alloca_once(builder, vectors.vec) for _ in range(nv)] for _ in range(mr)]
            for row in sums:
                for cell in row:
                    builder.store(vectors.constant(0.0), cell)
            starts = [builder.gep(rows, [builder.mul(stride, ir.Constant(I64, i))]) for i in range(mr)]
            with cgutils.for_range(builder, depth) as loop:
                line = builder.gep(panel, [builder.mul(loop.index, panel_stride)])
                w = [builder.load(vectors.place(line, v, ir.FloatType()), align=4) for v in range(nv)]
                if bits == 64:
                    w = [builder.fpext(x, vectors.vec) for x in w]
                for i in range(mr):
                    x = vectors.broadcast(builder.load(builder.gep(starts[i], [loop.index])))
                    for v in range(nv):
                        builder.store(vectors.call("fma", x, w[v], builder.load(sums[i][v])), sums[i][v])
            for v in range(nv):
                epilogue(vectors, v, [builder.load(sums[i][v]) for i in range(mr)], a, b)
            return context.get_dummy_value()

        return sig, codegen

    return kernel
