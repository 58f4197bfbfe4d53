// The log of products, and products alone to compare with.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/product_log.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/memory.hpp"
#include "base/stopwatch.hpp"

namespace trireme::kernels {
namespace {

using Clock = std::chrono::steady_clock;

struct Log {
  bool on = false;
  std::map<Product, LoggedProduct> products;
};
Log& log_of_products() {
  static Log log;
  return log;
}

// Numbers between -1 and 1; which ones does not matter, but zeros would be faster.
Buffer some_matrix(DType type, std::int64_t rows, std::int64_t columns) {
  Buffer matrix(Device::host(), type, {rows, columns}, MemoryClass::workspace, "bench");
  visit_floating(type, [&](auto element) {
    using T = decltype(element);
    std::uint32_t state = 1;
    for (T& x : matrix.view().span<T>()) {
      state = state * 1664525u + 1013904223u;
      x = T(static_cast<Accumulator<T>>(static_cast<std::int32_t>(state)) /
            static_cast<Accumulator<T>>(2147483648.0));
    }
  });
  return matrix;
}

}  // namespace

void start_product_log() { log_of_products() = {.on = true, .products = {}}; }
void stop_product_log() { log_of_products() = {}; }

std::vector<LoggedProduct> product_log() {
  std::vector<LoggedProduct> products;
  for (const auto& [product, entry] : log_of_products().products)
    products.push_back(entry);
  std::stable_sort(products.begin(), products.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return products;
}

void multiply_logged(const TensorView& c, const TensorView& a, Transpose transpose_a,
                     const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                     const TensorView& bias) {
  const Product product = product_of(c, a, transpose_a, b, transpose_b, accumulate, bias);
  const ProductPath path = choose_path(product);
  Log& log = log_of_products();
  const auto start = log.on ? Clock::now() : Clock::time_point();
  multiply_by(path, c, a, transpose_a, b, transpose_b, accumulate, bias);
  if (!log.on) return;
  LoggedProduct& entry = log.products[product];
  entry.product = product;
  entry.path = path;
  entry.seconds += seconds_since(start);
  ++entry.calls;
}

double product_rate(const Product& product, ProductPath path, double seconds) {
  const auto matrix = [&](bool transposed, std::int64_t rows, std::int64_t columns) {
    return transposed ? some_matrix(product.operands, columns, rows)
                      : some_matrix(product.operands, rows, columns);
  };
  const auto transpose = [](bool yes) { return yes ? Transpose::yes : Transpose::no; };
  const Buffer a = matrix(product.transposed_left, product.m, product.k);
  const Buffer b = matrix(product.transposed_right, product.k, product.n);
  const Buffer c = some_matrix(product.result, product.m, product.n);
  const Buffer bias = some_matrix(product.operands, 1, product.n);
  const auto run = [&] {
    multiply_by(path, c.view(), a.view(), transpose(product.transposed_left), b.view(),
                transpose(product.transposed_right),
                product.accumulate ? Accumulate::yes : Accumulate::no,
                product.bias ? bias.view().reshape({product.n}) : TensorView());
  };
  run();
  std::int64_t runs = 0;
  const auto start = Clock::now();
  double taken = 0;
  do {
    run();
    ++runs;
    taken = seconds_since(start);
  } while (taken < seconds);
  return product.flops() * static_cast<double>(runs) / taken;
}

}  // namespace trireme::kernels
