// WeightAccess: what a stage tells the owner of its weights while it runs its modules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/direction.hpp"
#include "base/param.hpp"

namespace trireme {

// Params that are used together, in the order of forward: the embedding, each block, the
// head. A Param may be in several modules (a tied embedding table).
struct ParamModule {
  std::string name;
  std::vector<Param*> params;
};

// Modules are numbered over all stages of a rank. By default weights and gradients are
// always in place and nobody is told of anything (inference, tests).
class WeightAccess {
 public:
  WeightAccess() = default;
  WeightAccess(const WeightAccess&) = delete;
  WeightAccess& operator=(const WeightAccess&) = delete;
  virtual ~WeightAccess() = default;

  // From here to release(), the value of each Param of the module is whole and bound. The
  // direction says which modules come next, so that their weights can be fetched ahead.
  virtual void fetch(int /*module*/, Direction /*direction*/) {}
  virtual void release(int /*module*/) {}
  // From here to close_gradients(), gradients of the module's Params may be added to.
  // Closing says that this microbatch adds nothing more until they are opened again.
  virtual void open_gradients(int /*module*/) {}
  virtual void close_gradients(int /*module*/) {}
  // One contribution to the gradient of `param` is complete.
  virtual void ready(Param& /*param*/) {}
};

}  // namespace trireme
