// Blocks that texts need, and those that there is memory for.
// SPDX-License-Identifier: Apache-2.0
#include "infer/cache_plan.hpp"

#include <algorithm>

#include "base/split.hpp"

namespace trireme::infer {
namespace {

// Blocks that a text of so many positions holds at once in a group.
std::int64_t blocks_of(std::int64_t positions, std::int64_t window,
                       const BatchOptions& options) {
  const std::int64_t all = divide_up(positions, options.block);
  if (window == 0) return all;
  return std::min(all, divide_up(window + options.chunk, options.block) + 1);
}

// Of the rank that takes the most: stages have more or fewer layers, and tensor ranks
// more or fewer heads.
std::vector<std::int64_t> largest_bytes(const LoadedModel& model, comm::Group& pipeline,
                                        const BatchOptions& options) {
  std::vector<std::int64_t> bytes = block_bytes(model, options.cache, options.block);
  if (bytes.empty()) return bytes;
  std::vector<double> numbers(bytes.begin(), bytes.end());
  const TensorView all(numbers.data(), DType::f64,
                       {static_cast<std::int64_t>(numbers.size())});
  Stream stream;
  pipeline.all_reduce(stream, all, comm::Reduce::max).wait();
  model.region().largest(stream, all);
  std::transform(numbers.begin(), numbers.end(), bytes.begin(),
                 [](double x) { return static_cast<std::int64_t>(x); });
  return bytes;
}

}  // namespace

CachePlan plan_blocks(const LoadedModel& model, comm::Group& pipeline,
                      const BatchOptions& options,
                      const std::vector<Generation>& generations, int lanes) {
  const std::vector<std::int64_t> windows = cache_windows(model.config());
  const std::vector<std::int64_t> bytes = largest_bytes(model, pipeline, options);
  std::vector<std::int64_t> lengths;
  for (const Generation& one : generations)
    lengths.push_back(
        std::min(model.config().positions(),
                 static_cast<std::int64_t>(one.prompt.size()) + one.max_new_tokens));
  std::sort(lengths.rbegin(), lengths.rend());
  CachePlan plan;
  plan.texts_of_lane = std::max<std::int64_t>(
      1, std::min(divide_up(options.texts, static_cast<std::int64_t>(lanes)),
                  static_cast<std::int64_t>(lengths.size())));
  const auto at_once =
      std::min(lengths.size(), static_cast<std::size_t>(plan.texts_of_lane));
  std::vector<std::int64_t> needed, least;
  double needed_bytes = 0, least_bytes = 0;
  for (std::size_t g = 0; g < windows.size(); ++g) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < at_once; ++i)
      sum += blocks_of(lengths[i], windows[g], options);
    needed.push_back(sum);
    least.push_back(lengths.empty() ? 0
                                    : blocks_of(lengths.front(), windows[g], options));
    needed_bytes += static_cast<double>(lanes * sum * bytes[g]);
    least_bytes += static_cast<double>(lanes * least[g] * bytes[g]);
  }
  const auto budget = static_cast<double>(options.cache_bytes);
  require(least_bytes <= budget, Status::resources,
          "a text of {} positions takes {} bytes of cache{}, and --cache-bytes is {}: "
          "give more, or ask for fewer tokens",
          lengths.empty() ? 0 : lengths.front(), static_cast<std::int64_t>(least_bytes),
          lanes > 1 ? format(" for {} stages", lanes) : "", options.cache_bytes);
  // Above the least of each group, what is left is shared as they need it.
  const double share = needed_bytes <= budget || needed_bytes <= least_bytes
                           ? 1.0
                           : (budget - least_bytes) / (needed_bytes - least_bytes);
  for (std::size_t g = 0; g < windows.size(); ++g) {
    const auto more =
        static_cast<std::int64_t>(share * static_cast<double>(needed[g] - least[g]));
    plan.groups.push_back({windows[g], lanes * (least[g] + more)});
  }
  return plan;
}

}  // namespace trireme::infer
