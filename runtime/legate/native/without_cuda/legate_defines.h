// Put in front of Legate's own header: a wheel of Legate has no CUDA headers, and what of Legate's headers wants
// them is not used here.
#pragma once
#include_next <legate_defines.h>
#undef LEGATE_USE_CUDA
#define LEGATE_USE_CUDA 0
