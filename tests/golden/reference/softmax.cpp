namespace LUMIGEN_NS {

double k00_simt_out_reference(const k00_simt_args& a, int64_t element) {
  const auto x = [&](int64_t i) { return double{a.x[i]}; };
  const int64_t i0 = element / 37;
  const int64_t i1 = element % 37;
  double max0 = -__builtin_inf();
  for (int64_t k0 = 0; k0 < 37; ++k0) {
    const double v0 = x(37 * i0 + k0);
    if (v0 > max0 || v0 != v0) max0 = v0;
  }
  double sum0 = 0.0;
  for (int64_t k0 = 0; k0 < 37; ++k0) {
    sum0 += __builtin_exp2((x(37 * i0 + k0) - max0) * 1.4426950408889634);
  }
  return __builtin_exp2((x(37 * i0 + i1) - max0) * 1.4426950408889634) / sum0;
}

}  // namespace LUMIGEN_NS
