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

// Elements as floats, whatever memory has.
template <class T, class Lanes>
LUMIGEN_INLINE Vec load_floats(const T* p, Lanes lanes) {
  if constexpr (std::is_integral_v<T>)
    return load_widened(p, lanes);
  else
    return load(p, lanes);
}
template <class T>
LUMIGEN_INLINE float one_float(T x) {
  if constexpr (std::is_integral_v<T>)
    return float(x);
  else
    return widened(x);
}

// Every kStride-th element from p on.
template <int64_t kStride, class T>
LUMIGEN_INLINE Vec load_every(const T* p) {
  if constexpr (kStride == 1) {
    return load_floats(p, AllLanes{});
  } else if constexpr (kStride == 2) {
    return even_then_odd(load_floats(p, AllLanes{}), load_floats(p + kLanes - 1, AllLanes{}));
  } else {
    return build([&](int i) { return one_float(p[i * kStride]); });
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
    store(dst, load_floats(src, FirstLanes{int(n)}), AllLanes{});
  } else if constexpr (kStride == 2) {
    const int first = int(between(0, 2 * n - 1, kLanes)), second = int(between(0, 2 * n - kLanes, kLanes));
    const Vec low = load_floats(src, FirstLanes{first});
    const Vec high = second > 0 ? load_floats(src + kLanes - 1, FirstLanes{second}) : splat(0.0f);
    store(dst, even_then_odd(low, high), AllLanes{});
  } else {
    for (; i < n; i++) dst[i] = one_float(src[i * kStride]);
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

// Columns that one store has: lane i, where bit i of `held` is set, is src[from + i * stride], or src[from +
// (phase + i) / repeat] of what is repeated; the other lanes are 0. `loaded` are the elements that loads
// take, where they are not the lanes.
struct Piece {
  int64_t from;
  int32_t to;
  uint16_t held, loaded[2], phase;
};

// Bits 0, 1, 2, ... of 8 to bits 0, 2, 4, ...
LUMIGEN_INLINE uint32_t spread_bits(uint32_t x) {
  x = (x | x << 4) & 0x0f0f;
  x = (x | x << 2) & 0x3333;
  return (x | x << 1) & 0x5555;
}

// Lanes below n.
LUMIGEN_INLINE uint32_t first_bits(int64_t n) { return (UINT32_C(1) << n) - 1; }

// The pieces of a row as pack_runs packs it; return how many. A run that goes on where the one before it ends
// shares pieces with it. Of overlapping stores the later one counts.
template <int64_t kStride, int kRepeat, class F>
inline int find_pieces(Piece* pieces, int64_t lo, int64_t hi, int64_t length, F&& run_of) {
  const int64_t cols = hi - lo, whole = (cols + kPanel - 1) / kPanel * kPanel;
  int count = 0, filled = kLanes;
  if (cols < whole)
    for (int64_t to = whole - kPanel; to < whole; to += kLanes)
      pieces[count++] = {0, int32_t(to), 0, {0, 0}, 0};
  int64_t number = lo / length, first = lo % length, to = 0, next = 0;
  for (; to < cols; number++, first = 0) {
    const Run run = run_of(number);
    const int64_t end = first + cols - to < length ? first + cols - to : length;
    if (kRepeat > 1 || run.at + first * kStride != next) filled = kLanes;
    for (int64_t i = first; i < end;) {
      if (filled == kLanes) {
        pieces[count++] = {run.at + i * kStride, int32_t(to), 0, {0, 0}, 0};
        filled = 0;
      }
      const int64_t some = end - i < kLanes - filled ? end - i : kLanes - filled;
      const int64_t begin = between(0, run.begin - i, some), behind = between(begin, run.end - i, some);
      pieces[count - 1].held |= uint16_t((first_bits(behind) - first_bits(begin)) << filled);
      filled += int(some), i += some, to += some;
    }
    next = run.at + end * kStride;
  }
  for (int i = 0; i < count; i++) {
    Piece& piece = pieces[i];
    if constexpr (kStride == 2) {
      piece.loaded[0] = uint16_t(spread_bits(piece.held & first_bits(kLanes / 2)));
      piece.loaded[1] = uint16_t(spread_bits(piece.held >> (kLanes / 2)) << 1);
    } else if constexpr (kRepeat > 1) {
      // a run may begin before the image, where no element is held
      const int64_t phase = (piece.from % kRepeat + kRepeat) % kRepeat;
      piece.phase = uint16_t(phase), piece.from = (piece.from - phase) / kRepeat;
      for (int j = 0; j < kLanes; j++)
        if (piece.held >> j & 1) piece.loaded[0] |= uint16_t(1 << (piece.phase + j) / kRepeat);
    }
  }
  return count;
}

// The elements of a piece of columns that begin at `src`.
template <int64_t kStride, int kRepeat>
LUMIGEN_INLINE Vec load_piece(const float* src, const Piece& piece) {
  src += piece.from;
  if constexpr (kRepeat > 1) {
    const IVec k = iota_int() + splat_int(piece.phase);
    const Vec some = load_masked(src, lanes_of(piece.loaded[0]));
    const Vec each = permute(some, shift_right<8>(k * splat_int(256 / kRepeat + 1)));
    return select(lanes_of(piece.held), each, splat(0.0f));
  } else {
    if (kLanes < 8 && piece.held == first_bits(kLanes)) return load_every<kStride>(src);
    if constexpr (kStride == 1) return load_masked(src, lanes_of(piece.held));
    return even_then_odd(load_masked(src, lanes_of(piece.loaded[0])),
                         load_masked(src + kLanes - 1, lanes_of(piece.loaded[1])));
  }
}

// As pack_runs, for `rows` rows of the same runs: row r at dst + r * dst_step, of src + r * src_step. At most
// kMost columns.
template <int64_t kStride, int kRepeat, int kMost, class T, class F>
inline void pack_rows_of_runs(float* dst, int64_t dst_step, const T* src, int64_t src_step, int64_t rows,
                              int64_t lo, int64_t hi, int64_t length, F&& run_of, float fill = 0.0f) {
  if constexpr (kStride <= 2 && std::is_same_v<T, float>) {
    if (fill == 0.0f) {
      Piece pieces[kMost + kPanel];
      const int count = find_pieces<kStride, kRepeat>(pieces, lo, hi, length, run_of);
      for (int64_t r = 0; r < rows; r++, dst += dst_step, src += src_step)
        for (int i = 0; i < count; i++)
          store(dst + pieces[i].to, load_piece<kStride, kRepeat>(src, pieces[i]), AllLanes{});
      return;
    }
  }
  for (int64_t r = 0; r < rows; r++)
    pack_runs<kStride, kRepeat>(dst + r * dst_step, src + r * src_step, lo, hi, length, run_of, fill);
}

}  // namespace LUMIGEN_ISA
}  // namespace LUMIGEN_NS
