// Times numbers and products of matrices that are kept as codes.
// SPDX-License-Identifier: Apache-2.0
#include "bench/code_kernels.hpp"

#include <memory>
#include <utility>

#include "base/format.hpp"
#include "kernels/coded_matrix.hpp"
#include "kernels/gemm_codes.hpp"
#include "unit/kernels/coded_matrices.hpp"

namespace trireme::bench {
namespace {

struct Kind {
  const char* name;
  CodeType type;
  std::int64_t rows, columns;  // that have a scale together; columns 0: the whole row
};
constexpr Kind kinds[] = {{"nf4", CodeType::four_bits, 1, 64},
                          {"int8", CodeType::int8, 1, 0},
                          {"fp8 128x128", CodeType::e4m3, 128, 128}};

OwnedCodes codes_of(const Settings& s, const Kind& kind, std::int64_t N, std::int64_t K) {
  const ScaleLayout layout =
      test::grid_of_scales(kind.rows, kind.columns > 0 ? kind.columns : K, K, 0, 0);
  return moved_to(s.device, test::coded_matrix(kind.type, {N, K}, layout, false));
}

}  // namespace

void add_code_kernels(const Settings& s, Table& table, const std::string& model,
                      std::int64_t N, std::int64_t K) {
  for (const Kind& kind : kinds) {
    const auto bytes = static_cast<double>(codes_of(s, kind, N, K).matrix.bytes());
    const auto of_numbers =
        static_cast<double>(N * K) * static_cast<double>(size_of(s.type));
    table.add(format("codes {} {} to numbers {} x {}", model, kind.name, N, K),
              {bytes + of_numbers}, [&]() -> Call {
                const auto w = std::make_shared<OwnedCodes>(codes_of(s, kind, N, K));
                return [w, y = Tensor::normal(s, s.type, {N, K})](Stream& stream) {
                  kernels::decode_matrix(stream, w->matrix, y);
                };
              });
    for (const std::int64_t M : {1, 4})
      table.add(format("codes {} {} product {} x {} x {}", model, kind.name, M, N, K),
                {bytes}, [&]() -> Call {
                  const auto w = std::make_shared<WeightCodes>();
                  const Tensor numbers = Tensor::normal(s, s.type, {N, K});
                  w->numbers = numbers;
                  w->boxes.push_back({{0, 0}, codes_of(s, kind, N, K)});
                  return [w, numbers, x = Tensor::normal(s, s.type, {M, K}),
                          y = Tensor::normal(s, s.type, {M, N})](Stream& stream) {
                    kernels::gemm_codes(stream, y, x, *w, {});
                  };
                });
  }
}

}  // namespace trireme::bench
