// The launcher's variables, as Open MPI, PMIx and Slurm name them.
// SPDX-License-Identifier: Apache-2.0
#include "comm/launcher.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/number.hpp"

namespace trireme::comm {

bool in_batch_script() {
  const char* const environment = std::getenv("ENVIRONMENT");
  return std::getenv("SLURM_STEP_NUM_TASKS") == nullptr && environment != nullptr &&
         std::string_view(environment) == "BATCH";
}

bool is_launched() {
  return std::any_of(rank_variables.begin(), rank_variables.end(), [](const char* name) {
    const bool of_script = std::string_view(name) == "SLURM_PROCID" && in_batch_script();
    return !of_script && std::getenv(name) != nullptr;
  });
}

int launched_rank() {
  for (const char* const name : rank_variables)
    if (const char* const text = std::getenv(name))
      return parse_number<int>(text).value_or(0);
  return 0;
}

int launched_ranks(std::string& variable) {
  const auto number = [&](const char* name) {
    const char* text = std::getenv(name);
    if (text) variable = name;
    return text ? parse_number<int>(text).value_or(0) : 0;
  };
  if (std::getenv("OMPI_COMM_WORLD_SIZE")) return number("OMPI_COMM_WORLD_SIZE");
  if (!std::getenv("SLURM_PROCID")) return 0;
  if (std::getenv("SLURM_STEP_NUM_TASKS")) return number("SLURM_STEP_NUM_TASKS");
  return in_batch_script() ? 0 : number("SLURM_NTASKS");
}

}  // namespace trireme::comm
