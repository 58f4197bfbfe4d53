// Times quantization to FP8 and products of what it makes.
// SPDX-License-Identifier: Apache-2.0
#include "bench/fp8_kernels.hpp"

#include <utility>

#include "base/format.hpp"
#include "kernels/gemm.hpp"
#include "kernels/quantize.hpp"

namespace trireme::bench {

void add_fp8_kernels(const Settings& s, Table& table, const std::string& model,
                     std::int64_t T, std::int64_t N, std::int64_t K) {
  using kernels::Fp8Format, kernels::Fp8Matrix, kernels::Fp8Scaling;
  const auto normal = [&](const Shape& shape) {
    return Tensor::normal(s, s.type, shape, 1);
  };
  const auto bytes_of = [&](std::int64_t elements) {
    return double(elements) * double(size_of(s.type));
  };
  const auto quantized = [&](std::int64_t rows, Fp8Scaling scaling) {
    const Tensor x = normal({rows, K}), codes = Tensor::bytes(s, {rows, K}),
                 scales = Tensor::positive(s, DType::f32,
                                           kernels::fp8_scales_shape(scaling, rows, K));
    Stream stream(s.device);
    kernels::quantize(stream, x, {codes, Fp8Format::e4m3, scaling, scales});
    stream.synchronize();
    return std::pair(codes, scales);
  };
  table.add("amax " + model, {bytes_of(T * K)}, [&]() -> Call {
    return [x = normal({T, K}), most = Tensor::normal(s, DType::f32, {1}, 1)](
               Stream& stream) { kernels::amax(stream, x, most); };
  });
  table.add("quantize and transpose " + model, {bytes_of(T * K) + 2 * double(T * K)},
            [&]() -> Call {
              return [x = normal({T, K}), codes = Tensor::bytes(s, {T, K}),
                      transposed = Tensor::bytes(s, {K, T}),
                      most = Tensor::normal(s, DType::f32, {1}, 1),
                      scale = Tensor::positive(s, DType::f32, {1})](Stream& stream) {
                kernels::quantize_and_transpose(
                    stream, x, {codes, Fp8Format::e4m3, Fp8Scaling::tensor, scale},
                    transposed, most);
              };
            });
  struct Kind {
    const char* name;
    Fp8Scaling left, right;
  };
  for (const Kind kind : {Kind{"tensor", Fp8Scaling::tensor, Fp8Scaling::tensor},
                          Kind{"1x128", Fp8Scaling::row_128, Fp8Scaling::row_128},
                          Kind{"128x128", Fp8Scaling::row_128, Fp8Scaling::block_128}}) {
    const Fp8Scaling scaling = kind.right;
    table.add(format("quantize {} {}", model, kind.name),
              {bytes_of(T * K) + double(T * K)}, [&]() -> Call {
                return [=, x = normal({T, K}), codes = Tensor::bytes(s, {T, K}),
                        scales = Tensor::positive(
                            s, DType::f32, kernels::fp8_scales_shape(scaling, T, K))](
                           Stream& stream) {
                  kernels::quantize(stream, x, {codes, Fp8Format::e4m3, scaling, scales});
                };
              });
    table.add(
        format("fp8 product {} {} {} x {} x {}", model, kind.name, T, N, K),
        {0, 2.0 * double(T) * double(N) * double(K)},
        [&]() -> Call {
          return [=, a = quantized(T, kind.left), b = quantized(N, kind.right),
                  c = normal({T, N})](Stream& stream) {
            const Fp8Matrix left{a.first, Fp8Format::e4m3, kind.left, a.second};
            const Fp8Matrix right{b.first, Fp8Format::e4m3, kind.right, b.second};
            kernels::gemm_fp8(stream, c, left, right);
          };
        },
        bytes_of(T * N) + double(T * K + N * K));
  }
}

}  // namespace trireme::bench
