# Matrix products and FP8.
# SPDX-License-Identifier: Apache-2.0
trireme_gpu_test(gemm_test)
trireme_gpu_test(gemm_epilogue_test)
trireme_gpu_test(quantize_test)
trireme_gpu_test(amax_test)
trireme_gpu_test(vocabulary_products_test)
trireme_gpu_test(device_codes_test)
trireme_gpu_test(independent_rows_test)
