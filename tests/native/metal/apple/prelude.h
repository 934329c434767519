// Read ahead of metal-cpp.
#pragma once
#include <dispatch/dispatch.h>

#include <cmath>
#include <cstddef>
using std::size_t;
