// All kernels.
#pragma once

#include "runtime/kernel.h"

#include "k00_affine_7.h"
#include "k01_project_20x7.h"
#include "k02_sum_20.h"
#include "k03_rows_10x7.h"
