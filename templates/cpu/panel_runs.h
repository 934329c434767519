// Packing for panel.h: columns of B that lie in runs, into rows of k. Nothing is read where the guards of a
// run fail.
#pragma once

#include <type_traits>

namespace LUMIGEN_NS {
inline namespace LUMIGEN_ISA {

// Points begin .. end - 1 of a run are at src[(at + point * stride) / repeat]; the others are constant.
struct Run {
  int64_t at, begin, end;
};

LUMIGEN_INLINE int64_t between(int64_t lo, int64_t x, int64_t hi) { return x < lo ? lo : x < hi ? x : hi; }

// The value from dst up to `end`, in whole vectors: up to kLanes - 1 floats behind it have it as well.
LUMIGEN_INLINE void fill_vectors(float* dst, const float* end, float value) {
  for (; dst < end; dst += kLanes) store(dst, splat(value), AllLanes{});
}

// Every kStride-th element from p on.
template <int64_t kStride, class T>
LUMIGEN_INLINE Vec load_every(const T* p) {
  if constexpr (kStride == 1) {
    return load(p, AllLanes{});
  } else if constexpr (kStride == 2) {
    return even_then_odd(load(p, AllLanes{}), load(p + kLanes - 1, AllLanes{}));
  } else {
    return build([&](int i) { return widened(p[i * kStride]); });
  }
}

// dst[i] = src[i * kStride] for i < n. Behind it up to kLanes - 1 floats may be written.
template <int64_t kStride, class T>
LUMIGEN_INLINE void copy_run(float* dst, const T* src, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(dst + i, load_every<kStride>(src + i * kStride), AllLanes{});
  if (i == n) return;
  if (n >= kLanes) {
    i = n - kLanes;  // once more what the last vector has in common with this one
    store(dst + i, load_every<kStride>(src + i * kStride), AllLanes{});
  } else if constexpr (kStride == 1) {
    store(dst, load(src, FirstLanes{int(n)}), AllLanes{});
  } else {
    for (; i < n; i++) dst[i] = widened(src[i * kStride]);
  }
}

// dst[i - first] = src[i] where begin <= i < end, else `fill`, for first <= i < last. Behind it up to kLanes
// - 1 floats may be written. Masks, as a branch for each edge of short runs would often be guessed wrong.
LUMIGEN_INLINE void copy_between(float* dst, const float* src, int64_t first, int64_t last, int64_t begin,
                                 int64_t end, float fill) {
  const IVec before = splat_int(int32_t(between(0, begin, last)) - 1),
             behind = splat_int(int32_t(between(0, end, last)));
  IVec place = iota_int() + splat_int(int32_t(first));
  for (int64_t i = first; i < last; i += kLanes) {
    const Mask inside = mask_and(lt(before, place), lt(place, behind));
    store(dst + (i - first), select(inside, load_masked(src + i, inside), splat(fill)), AllLanes{});
    place = place + splat_int(kLanes);
  }
}

// dst[i] = src[(at + i) / kRepeat] for i < n. Behind it up to kLanes - 1 floats may be written.
template <int kRepeat>
LUMIGEN_INLINE void copy_repeated(float* dst, const float* src, int64_t at, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(dst + i, load_phases<kRepeat>(src, at + i, 0, AllLanes{}), AllLanes{});
  if (i < n) store(dst + i, load_phases<kRepeat>(src, at + i, 0, FirstLanes{int(n - i)}), AllLanes{});
}

// dst[c - lo] = column c for lo <= c < hi, which is point c % length of run c / length, `fill` outside of a
// run; zeros follow up to a multiple of 16. At dst there is room for 16 floats more than there are columns.
template <int64_t kStride, int kRepeat = 1, class T, class F>
inline void pack_runs(float* dst, const T* src, int64_t lo, int64_t hi, int64_t length, F&& run_of,
                      float fill = 0.0f) {
  float* const last = dst + (hi - lo + kPanel - 1) / kPanel * kPanel;
  int64_t number = lo / length, first = lo % length;
  for (; lo < hi; number++) {
    const Run run = run_of(number);
    const int64_t end = first + hi - lo < length ? first + hi - lo : length;
    if constexpr (kStride == 1 && kRepeat == 1 && std::is_same_v<T, float>) {
      if (run.begin <= first && end <= run.end)
        copy_run<1>(dst, src + (run.at + first), end - first);
      else
        copy_between(dst, src + run.at, first, end, run.begin, run.end, fill);
    } else {
      const int64_t from = between(first, run.begin, end), to = between(from, run.end, end);
      fill_vectors(dst, dst + (from - first), fill);
      if constexpr (kRepeat > 1) {
        if (from < to) copy_repeated<kRepeat>(dst + (from - first), src, run.at + from, to - from);
      } else if (from < to) {
        copy_run<kStride>(dst + (from - first), src + (run.at + from * kStride), to - from);
      }
      fill_vectors(dst + (to - first), dst + (end - first), fill);
    }
    dst += end - first;
    lo += end - first;
    first = 0;
  }
  for (; dst + kLanes <= last; dst += kLanes) store(dst, splat(0.0f), AllLanes{});
  if (dst < last) store(dst, splat(0.0f), FirstLanes{int(last - dst)});
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
