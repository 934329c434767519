"""The functions of torch.special."""

from __future__ import annotations

from lumigen.frontend.offered import namespace
from lumigen.frontend.orthogonal import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)
from lumigen.frontend.special_functions import (
    digamma,
    entr,
    erfcx,
    erfinv,
    i0,
    i0e,
    i1,
    i1e,
    lgamma,
    log_ndtr,
    mvlgamma,
    ndtr,
    ndtri,
    polygamma,
    spherical_bessel_j0,
    xlog1py,
    zeta,
)
from lumigen.frontend.tensor import Tensor

erf, erfc = Tensor.erf, Tensor.erfc
exp2, expm1, log1p = Tensor.exp2, Tensor.expm1, Tensor.log1p
expit, logit, round = Tensor.sigmoid, Tensor.logit, Tensor.round
logsumexp, softmax, log_softmax = Tensor.logsumexp, Tensor.softmax, Tensor.log_softmax
sinc, xlogy = Tensor.sinc, Tensor.xlogy
gammaln, psi, multigammaln = lgamma, digamma, mvlgamma
modified_bessel_i0, modified_bessel_i1 = i0, i1

__all__ = [
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]


__getattr__, __dir__ = namespace(globals())
