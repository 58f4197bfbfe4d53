// Rules about comm.reproducible: sums that do not depend on the number of data ranks.
// SPDX-License-Identifier: Apache-2.0
// The page docs/decisions/reproducible-sums.md says why.
#include "config/rules.hpp"

namespace trireme::config {

void ReproducibleRules::reproducible_rules() {
  const auto& p = config_.parallel;
  if (!p.reproducible) return;
  const Advice off(key::comm.reproducible, {"false"});
  rule({key::comm.reproducible, key::parallel.sharding_strategy},
       p.sharding == optim::Sharding::none, key::comm.reproducible, " with ",
       key::parallel.sharding_strategy,
       ", with which each rank has the sums, and the norm, of its shard alone", [&] {
         return advise({{key::parallel.sharding_strategy, {"\"NO_SHARD\""}}, off});
       });
  rule({key::comm.reproducible, key::precision.compute},
       config_.precision.compute != DType::f16, key::comm.reproducible, " with ",
       key::precision.compute,
       ", whose loss scale moves gradients away from the grid that they are rounded to",
       [&] {
         return advise({{key::precision.compute, {"\"bf16\"", "\"fp32\""}}, off});
       });
  rule(
      {key::comm.reproducible, key::precision.recipe, key::precision.gradient_reduce},
      [&] {
        optim::StoreConfig store;
        store.recipe = config_.precision.recipe;
        return !store.low_precision_gradients() && !store.low_precision_traffic();
      },
      key::comm.reproducible, " needs gradients in the accumulator's type, which ",
      key::precision.recipe,
      ", or precision.gradient_reduce, has in fewer bits: write precision.recipe and "
      "precision.gradient_reduce = \"auto\", or comm.reproducible = false");
  rule({key::comm.reproducible, key::parallel.expert}, p.folding.expert == 1,
       key::comm.reproducible, " with ", key::parallel.expert,
       ": an expert multiplies the rows of several ranks at once", [&] {
         return advise({{key::parallel.expert, {"1"}}, off});
       });
  rule({key::comm.reproducible, key::outer.every}, !config_.optimizer.outer.on(),
       key::comm.reproducible, " with ", key::outer.every,
       ", where copies of the model take steps by themselves", [&] {
         return advise({{key::outer.every, {"0"}}, off});
       });
}

}  // namespace trireme::config
