// The products of a step: paths, rates in the program, rates alone.
// SPDX-License-Identifier: Apache-2.0
#include "app/bench_products.hpp"

#include <algorithm>
#include <map>
#include <utility>

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

// The extent that counts tokens: experts' products have many.
std::int64_t& tokens_of(Product& product) {
  return product.transposed_left ? product.k : product.m;
}

// Products that differ in nothing but the number of tokens.
struct Row {
  kernels::LoggedProduct longest;  // of them
  std::int64_t calls = 0, least = 0, most = 0;
  double seconds = 0, flops = 0;

  std::string extents() const {
    const Product& product = longest.product;
    const std::string tokens =
        least == most ? format("{}", least) : format("{}-{}", least, most);
    return product.transposed_left ? format("{} x {} x {}", product.m, product.n, tokens)
                                   : format("{} x {} x {}", tokens, product.n, product.k);
  }
};

std::vector<Row> rows_of(const std::vector<kernels::LoggedProduct>& products) {
  std::map<std::pair<Product, ProductPath>, Row> rows;
  for (const kernels::LoggedProduct& entry : products) {
    Product alike = entry.product;
    const std::int64_t tokens = std::exchange(tokens_of(alike), 0);
    const auto [at, is_new] = rows.try_emplace({alike, entry.path});
    Row& row = at->second;
    if (is_new) row.least = row.most = tokens;
    row.least = std::min(row.least, tokens);
    row.most = std::max(row.most, tokens);
    row.calls += entry.calls;
    row.seconds += entry.seconds;
    row.flops += entry.product.flops() * static_cast<double>(entry.calls);
    if (entry.seconds > row.longest.seconds) row.longest = entry;
  }
  std::vector<Row> sorted;
  for (const auto& [alike, row] : rows) sorted.push_back(row);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  return sorted;
}

}  // namespace

std::string table_of_products(const std::vector<kernels::LoggedProduct>& products,
                              std::int64_t steps, double seconds) {
  std::vector<TextRow> rows = {{"product", "M x N x K", "types", "path", "a step",
                                "ms a step", "GFLOP/s", "alone", "best other", ""}};
  for (const Row& row : rows_of(products)) {
    const Product& product = row.longest.product;
    const ProductPath path = row.longest.path;
    rows.push_back({kind_of(product), row.extents(), types_of(product),
                    std::string(name_of(path)), format("{}", row.calls / steps),
                    fixed(row.seconds * 1e3 / static_cast<double>(steps), 2),
                    giga(row.flops / row.seconds),
                    giga(kernels::product_rate(product, path, seconds)),
                    best_other(product, seconds),
                    std::string(kernels::why_slow(product))});
  }
  return text_table(rows, 4, 0);
}

}  // namespace trireme::app
