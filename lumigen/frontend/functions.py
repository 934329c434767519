"""The functions of the namespace torch: methods of tensors by their names, and what takes several tensors or none."""

# ruff: noqa: FBT002  # signatures are PyTorch's

from __future__ import annotations

from collections.abc import Sequence

from lumigen.frontend import elimination, movement, reflections
from lumigen.frontend.arrangement import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    column_stack,
    combinations,
    dstack,
    hstack,
    meshgrid,
    unravel_index,
    vstack,
)
from lumigen.frontend.creation import (
    arange,
    eye,
    full,
    linspace,
    logspace,
    ones,
    scalar_tensor,
    tensor,
    tril_indices,
    triu_indices,
    zeros,
)
from lumigen.frontend.cumulative import cumulative_trapezoid
from lumigen.frontend.elimination import (
    cholesky_inverse,
    cholesky_solve,
    det,
    inv,
    logdet,
    lu_unpack,
    slogdet,
    triangular_solve,
)
from lumigen.frontend.info import finfo, iinfo
from lumigen.frontend.linalg import matrix_exp
from lumigen.frontend.operand import (
    full_like,
    ones_like,
    where,
    zeros_like,
)
from lumigen.frontend.ordering import histogram, histogramdd, nonzero_static, searchsorted
from lumigen.frontend.products import (
    cdist,
    einsum,
    multi_dot,
    pdist,
    tensordot,
    vander,
)
from lumigen.frontend.random import (
    Generator,
    bernoulli,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from lumigen.frontend.reflections import geqrf, ormqr
from lumigen.frontend.scan import scan
from lumigen.frontend.special_functions import polygamma
from lumigen.frontend.statistics import (
    gradient,
    std_mean,
    trapezoid,
    var_mean,
)
from lumigen.frontend.symbolic import sym_max, sym_min
from lumigen.frontend.tensor import Tensor

__all__ = [
    "Generator",
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addr",
    "all",
    "allclose",
    "amax",
    "amin",
    "aminmax",
    "angle",
    "any",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "as_strided",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "baddbmm",
    "bernoulli",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "block_diag",
    "bmm",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "cartesian_prod",
    "cat",
    "cdist",
    "ceil",
    "chain_matmul",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "clone",
    "column_stack",
    "combinations",
    "concat",
    "concatenate",
    "copysign",
    "corrcoef",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cross",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "deg2rad",
    "det",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_scatter",
    "diff",
    "digamma",
    "dist",
    "div",
    "divide",
    "dot",
    "dsplit",
    "dstack",
    "einsum",
    "eq",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "eye",
    "finfo",
    "fix",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "frexp",
    "full",
    "full_like",
    "gather",
    "gcd",
    "ge",
    "geqrf",
    "ger",
    "gradient",
    "greater",
    "greater_equal",
    "gt",
    "heaviside",
    "histc",
    "histogram",
    "histogramdd",
    "hsplit",
    "hstack",
    "hypot",
    "i0",
    "iinfo",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "inner",
    "inverse",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "kron",
    "kthvalue",
    "lcm",
    "ldexp",
    "le",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logspace",
    "logsumexp",
    "lt",
    "lu",
    "lu_solve",
    "lu_unpack",
    "masked_fill",
    "masked_scatter",
    "matmul",
    "matrix_exp",
    "matrix_power",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mm",
    "mode",
    "moveaxis",
    "movedim",
    "msort",
    "mul",
    "multinomial",
    "multiply",
    "mv",
    "mvlgamma",
    "nan_to_num",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "narrow",
    "ne",
    "neg",
    "negative",
    "nonzero_static",
    "norm",
    "normal",
    "not_equal",
    "numel",
    "ones",
    "ones_like",
    "ormqr",
    "outer",
    "pdist",
    "permute",
    "polygamma",
    "positive",
    "pow",
    "prod",
    "put",
    "qr",
    "quantile",
    "rad2deg",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "ravel",
    "reciprocal",
    "relu",
    "remainder",
    "renorm",
    "repeat_interleave",
    "reshape",
    "roll",
    "rot90",
    "round",
    "row_stack",
    "rsqrt",
    "rsub",
    "scalar_tensor",
    "scan",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "select",
    "select_scatter",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "slice_scatter",
    "slogdet",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "std_mean",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "sym_max",
    "sym_min",
    "t",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "tensor",
    "tensor_split",
    "tensordot",
    "tile",
    "topk",
    "trace",
    "transpose",
    "trapezoid",
    "trapz",
    "triangular_solve",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "true_divide",
    "trunc",
    "unbind",
    "unflatten",
    "unravel_index",
    "unsqueeze",
    "vander",
    "var",
    "var_mean",
    "vdot",
    "vsplit",
    "vstack",
    "where",
    "xlogy",
    "zeros",
    "zeros_like",
]


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """One after the other along `dim`; the other extents agree, dtypes are promoted."""
    return Tensor(movement.cat([t.edge for t in tensors], dim))


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension `dim`."""
    return Tensor(movement.stack([t.edge for t in tensors], dim))


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in a row, in the order of least work."""
    return multi_dot(matrices)


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """L of A = L L^T for a positive definite matrix, or U of A = U^T U; NaN where it is not definite."""
    return elimination.cholesky(input, upper=upper)


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X of A X = b from the factors of A."""
    return elimination.lu_solve(LU_data, LU_pivots, b)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """The factors of A = P L U in one matrix and the exchanged rows; with `get_infos` the first pivot that is 0 too."""
    found = elimination.lu_factor_ex(A, pivot=pivot)
    return found if get_infos else found[:2]


def qr(input: Tensor, some: bool = True) -> reflections.Orthogonal:
    """A = Q R, with all columns of Q unless `some` are enough."""
    return reflections.qr(input, "reduced" if some else "complete")


inverse = inv
concat = concatenate = cat
row_stack = vstack
trapz = trapezoid

abs = Tensor.abs
absolute = Tensor.absolute
acos = Tensor.acos
arccos = Tensor.arccos
acosh = Tensor.acosh
arccosh = Tensor.arccosh
add = Tensor.add
addbmm = Tensor.addbmm
addcdiv = Tensor.addcdiv
addcmul = Tensor.addcmul
addmm = Tensor.addmm
addmv = Tensor.addmv
addr = Tensor.addr
all = Tensor.all
allclose = Tensor.allclose
amax = Tensor.amax
amin = Tensor.amin
aminmax = Tensor.aminmax
angle = Tensor.angle
any = Tensor.any
argmax = Tensor.argmax
argmin = Tensor.argmin
asin = Tensor.asin
arcsin = Tensor.arcsin
asinh = Tensor.asinh
arcsinh = Tensor.arcsinh
atan = Tensor.atan
arctan = Tensor.arctan
atan2 = Tensor.atan2
arctan2 = Tensor.arctan2
atanh = Tensor.atanh
arctanh = Tensor.arctanh
baddbmm = Tensor.baddbmm
bitwise_and = Tensor.bitwise_and
bitwise_left_shift = Tensor.bitwise_left_shift
bitwise_not = Tensor.bitwise_not
bitwise_or = Tensor.bitwise_or
bitwise_right_shift = Tensor.bitwise_right_shift
bitwise_xor = Tensor.bitwise_xor
bmm = Tensor.bmm
broadcast_to = Tensor.broadcast_to
ceil = Tensor.ceil
chunk = Tensor.chunk
clamp = Tensor.clamp
clamp_max = Tensor.clamp_max
clamp_min = Tensor.clamp_min
clip = Tensor.clip
clone = Tensor.clone
copysign = Tensor.copysign
corrcoef = Tensor.corrcoef
cos = Tensor.cos
cosh = Tensor.cosh
count_nonzero = Tensor.count_nonzero
cov = Tensor.cov
cross = Tensor.cross
cummax = Tensor.cummax
cummin = Tensor.cummin
cumprod = Tensor.cumprod
cumsum = Tensor.cumsum
deg2rad = Tensor.deg2rad
diag = Tensor.diag
diag_embed = Tensor.diag_embed
diagflat = Tensor.diagflat
diagonal = Tensor.diagonal
diagonal_scatter = Tensor.diagonal_scatter
diff = Tensor.diff
dist = Tensor.dist
div = Tensor.div
divide = Tensor.divide
dot = Tensor.dot
dsplit = Tensor.dsplit
eq = Tensor.eq
equal = Tensor.equal
erf = Tensor.erf
erfc = Tensor.erfc
exp = Tensor.exp
exp2 = Tensor.exp2
expm1 = Tensor.expm1
fix = Tensor.fix
flatten = Tensor.flatten
flip = Tensor.flip
fliplr = Tensor.fliplr
flipud = Tensor.flipud
float_power = Tensor.float_power
floor = Tensor.floor
floor_divide = Tensor.floor_divide
fmax = Tensor.fmax
fmin = Tensor.fmin
fmod = Tensor.fmod
frac = Tensor.frac
gather = Tensor.gather
gcd = Tensor.gcd
ge = Tensor.ge
ger = Tensor.ger
greater = Tensor.greater
greater_equal = Tensor.greater_equal
gt = Tensor.gt
heaviside = Tensor.heaviside
hsplit = Tensor.hsplit
hypot = Tensor.hypot
index_add = Tensor.index_add
index_copy = Tensor.index_copy
index_fill = Tensor.index_fill
index_put = Tensor.index_put
index_reduce = Tensor.index_reduce
index_select = Tensor.index_select
inner = Tensor.inner
isclose = Tensor.isclose
isfinite = Tensor.isfinite
isin = Tensor.isin
isinf = Tensor.isinf
isnan = Tensor.isnan
isneginf = Tensor.isneginf
isposinf = Tensor.isposinf
isreal = Tensor.isreal
kron = Tensor.kron
lcm = Tensor.lcm
ldexp = Tensor.ldexp
le = Tensor.le
lerp = Tensor.lerp
less = Tensor.less
less_equal = Tensor.less_equal
log = Tensor.log
log10 = Tensor.log10
log1p = Tensor.log1p
log2 = Tensor.log2
logaddexp = Tensor.logaddexp
logaddexp2 = Tensor.logaddexp2
logcumsumexp = Tensor.logcumsumexp
logical_and = Tensor.logical_and
logical_not = Tensor.logical_not
logical_or = Tensor.logical_or
logical_xor = Tensor.logical_xor
logit = Tensor.logit
logsumexp = Tensor.logsumexp
lt = Tensor.lt
masked_fill = Tensor.masked_fill
masked_scatter = Tensor.masked_scatter
matmul = Tensor.matmul
matrix_power = Tensor.matrix_power
max = Tensor.max
maximum = Tensor.maximum
mean = Tensor.mean
min = Tensor.min
minimum = Tensor.minimum
mm = Tensor.mm
movedim = Tensor.movedim
moveaxis = Tensor.moveaxis
mul = Tensor.mul
multiply = Tensor.multiply
mv = Tensor.mv
nan_to_num = Tensor.nan_to_num
nanmean = Tensor.nanmean
nansum = Tensor.nansum
narrow = Tensor.narrow
ne = Tensor.ne
neg = Tensor.neg
negative = Tensor.negative
norm = Tensor.norm
not_equal = Tensor.not_equal
numel = Tensor.numel
outer = Tensor.outer
permute = Tensor.permute
positive = Tensor.positive
pow = Tensor.pow
prod = Tensor.prod
put = Tensor.put
rad2deg = Tensor.rad2deg
ravel = Tensor.ravel
reciprocal = Tensor.reciprocal
relu = Tensor.relu
remainder = Tensor.remainder
renorm = Tensor.renorm
repeat_interleave = Tensor.repeat_interleave
reshape = Tensor.reshape
roll = Tensor.roll
rot90 = Tensor.rot90
round = Tensor.round
rsqrt = Tensor.rsqrt
rsub = Tensor.rsub
scatter = Tensor.scatter
scatter_add = Tensor.scatter_add
scatter_reduce = Tensor.scatter_reduce
select = Tensor.select
select_scatter = Tensor.select_scatter
sgn = Tensor.sgn
sigmoid = Tensor.sigmoid
sign = Tensor.sign
signbit = Tensor.signbit
sin = Tensor.sin
sinc = Tensor.sinc
sinh = Tensor.sinh
slice_scatter = Tensor.slice_scatter
softmax = Tensor.softmax
log_softmax = Tensor.log_softmax
split = Tensor.split
sqrt = Tensor.sqrt
square = Tensor.square
squeeze = Tensor.squeeze
std = Tensor.std
sub = Tensor.sub
subtract = Tensor.subtract
sum = Tensor.sum
swapaxes = Tensor.swapaxes
swapdims = Tensor.swapdims
t = Tensor.t
take = Tensor.take
take_along_dim = Tensor.take_along_dim
tan = Tensor.tan
tanh = Tensor.tanh
tensor_split = Tensor.tensor_split
tile = Tensor.tile
trace = Tensor.trace
transpose = Tensor.transpose
tril = Tensor.tril
triu = Tensor.triu
true_divide = Tensor.true_divide
trunc = Tensor.trunc
unbind = Tensor.unbind
unflatten = Tensor.unflatten
unsqueeze = Tensor.unsqueeze
var = Tensor.var
vdot = Tensor.vdot
vsplit = Tensor.vsplit
xlogy = Tensor.xlogy
as_strided = Tensor.as_strided
bucketize = Tensor.bucketize
digamma = Tensor.digamma
erfinv = Tensor.erfinv
frexp = Tensor.frexp
histc = Tensor.histc
i0 = Tensor.i0
lgamma = Tensor.lgamma
mvlgamma = Tensor.mvlgamma
sort = Tensor.sort
msort = Tensor.msort
argsort = Tensor.argsort
topk = Tensor.topk
kthvalue = Tensor.kthvalue
median = Tensor.median
nanmedian = Tensor.nanmedian
mode = Tensor.mode
quantile = Tensor.quantile
nanquantile = Tensor.nanquantile
