// The products of a step: paths, rates in the program, rates alone.
// SPDX-License-Identifier: Apache-2.0
#include "app/bench_products.hpp"

#include "base/format.hpp"
#include "base/text_table.hpp"

namespace trireme::app {
namespace {

using kernels::Product, kernels::ProductPath;

std::string giga(double rate) { return fixed(rate * 1e-9, 1); }

// A linear layer's three products are told apart by what they transpose.
std::string kind_of(const Product& product) {
  if (product.transposed_left) return "weight gradient";
  return product.transposed_right ? "forward" : "input gradient";
}

std::string types_of(const Product& product) {
  std::string text(name_of(product.operands));
  if (product.result != product.operands)
    text += format(" -> {}", name_of(product.result));
  if (product.bias) text += " + bias";
  if (product.accumulate) text += " +=";
  return text;
}

// Rate and name of the best path but the chosen one, or nothing where there is no other.
std::string best_other(const Product& product, double seconds) {
  const std::vector<ProductPath> paths = kernels::paths_of(product);
  double best = 0;
  std::string text = "none";
  for (std::size_t i = 1; i < paths.size(); ++i) {
    const double rate = kernels::product_rate(product, paths[i], seconds);
    if (rate <= best) continue;
    best = rate;
    text = format("{} {}", giga(rate), name_of(paths[i]));
  }
  return text;
}

}  // namespace

std::string table_of_products(const std::vector<kernels::LoggedProduct>& products,
                              std::int64_t steps, double seconds) {
  std::vector<TextRow> rows = {{"product", "M x N x K", "types", "path", "a step",
                                "ms a step", "GFLOP/s", "alone", "best other", ""}};
  for (const kernels::LoggedProduct& entry : products) {
    const Product& product = entry.product;
    const double calls = static_cast<double>(entry.calls);
    rows.push_back(
        {kind_of(product), format("{} x {} x {}", product.m, product.n, product.k),
         types_of(product), std::string(name_of(entry.path)),
         format("{}", entry.calls / steps),
         fixed(entry.seconds * 1e3 / static_cast<double>(steps), 2),
         giga(product.flops() * calls / entry.seconds),
         giga(kernels::product_rate(product, entry.path, seconds)),
         best_other(product, seconds), std::string(kernels::why_slow(product))});
  }
  return text_table(rows, 4, 0);
}

}  // namespace trireme::app
