// Functions of two vectors against plain C++, over each pair of some values.
#pragma once

#include <cmath>
#include <cstring>

#include "check.h"

// The same bits, or both NaN.
template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

// `All` says that a load or a store is of all `lanes`.
template <class All, int lanes, class T, int count, class F, class G>
void check_pairs(const T (&values)[count], F&& vector, G&& plain) {
  for (int i = 0; i < count; i++)
    for (int j = 0; j < count; j++) {
      T x[lanes], y[lanes], z[lanes];
      for (int l = 0; l < lanes; l++) {
        x[l] = values[(i + l) % count];
        y[l] = values[(j + 3 * l) % count];
      }
      store(z, vector(load(x, All{}), load(y, All{})), All{});
      for (int l = 0; l < lanes; l++) CHECK(same(z[l], plain(x[l], y[l])));
    }
}
