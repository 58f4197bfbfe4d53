// TRIREME_HOST_DEVICE: marks functions that hosts and GPUs both run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Formulas are compiled with every file that includes them: for hosts by a host compiler,
// for both by a compiler of CUDA. Emulated CUDA runs kernels on the host.
#ifdef __CUDACC__
#define TRIREME_HOST_DEVICE __host__ __device__
#else
#define TRIREME_HOST_DEVICE
#endif
