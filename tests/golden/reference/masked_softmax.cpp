namespace LUMIGEN_NS {

double kernel_out_reference(const kernel_args& a, int64_t element) {
  const auto x0 = [&](int64_t i) { return double{a.x0[i]}; };
  const int64_t i0 = element / 9;
  const int64_t i1 = element % 9;
  double max0 = -__builtin_inf();
  for (int64_t k0 = 0; k0 < 9; ++k0) {
    if (k0 >= 5) continue;
    const double v0 = x0(9 * i0 + k0);
    if (v0 > max0 || v0 != v0) max0 = v0;
  }
  const double v1 = (((i1 < 5) ? x0(9 * i0 + i1) : -__builtin_inf()) - max0) * 1.4426950408889634;
  double sum0 = 0.0;
  for (int64_t k0 = 0; k0 < 9; ++k0) {
    const double v2 = (((k0 < 5) ? x0(9 * i0 + k0) : -__builtin_inf()) - max0) * 1.4426950408889634;
    sum0 += __builtin_exp2(v2);
  }
  return __builtin_exp2(v1) / sum0;
}

}  // namespace LUMIGEN_NS
