// All keys of the deck, as objects: deck[key::parallel.tensor].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/keys_adapter.hpp"
#include "config/keys_dropout.hpp"
#include "config/keys_embedding.hpp"
#include "config/keys_latent.hpp"
#include "config/keys_linear.hpp"
#include "config/keys_model.hpp"
#include "config/keys_moe.hpp"
#include "config/keys_optimizer.hpp"
#include "config/keys_output.hpp"
#include "config/keys_parallel.hpp"
#include "config/keys_precision.hpp"
#include "config/keys_rope.hpp"
#include "config/keys_run.hpp"
#include "config/keys_train.hpp"

namespace trireme::config {

// The sections in the order of the help and of the reference page.
std::span<const Section* const> sections();

}  // namespace trireme::config
