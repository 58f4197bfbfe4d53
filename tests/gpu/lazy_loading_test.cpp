// The first step with NCCL, where the first launch of a kernel waits until a GPU is idle.
// SPDX-License-Identifier: Apache-2.0
//
// A receive that was posted before keeps the GPU busy until its peer has sent. A deadlock
// ends the test: the emulation finds it. The disabled test asks for more than holds: that
// losses and gradients are those of the same mesh with MPI, to the bit.
#include <cuda_emulation/control.hpp>

#include "ranks/equality.hpp"
#include "support/device.hpp"

namespace trireme::test {
namespace {

struct Case {
  const char *schedule, *virtual_stages;
};
constexpr Case cases[] = {{"gpipe", "1"},       {"1f1b", "1"}, {"zb_h1", "1"},
                          {"interleaved", "2"}, {"zb_v", "2"}, {"dualpipe_v", "2"}};

config::RunConfig config_of(const Case& c, int microbatches) {
  const std::string ranks = std::to_string(world().size());
  return equality_config(
      "llama", "fp32",
      {"parallel.pipeline=" + ranks, std::string("parallel.schedule=") + c.schedule,
       std::string("parallel.virtual_stages=") + c.virtual_stages, "batch.micro=1",
       "batch.global=" + std::to_string(microbatches), "model.sequence=4",
       "model.hidden=24", "model.heads=2", "model.kv_heads=1", "model.feed_forward=8",
       "model.layers=" + std::to_string(2 * world().size())});
}

Outcome first_step(const config::RunConfig& config, comm::Transport transport,
                   bool whole) {
  comm::Mesh mesh(world(), config.parallel.mesh, config.parallel.folding, test_device(),
                  transport);
  cuda_emulation::forget_loaded_kernels();
  return train_steps(config, mesh, 1, whole);
}

TEST(LazyLoading, NoScheduleHangsInItsFirstStep) {
  cuda_emulation::set_lazy_loading(true);
  for (const Case& c : cases) {
    for (int microbatches = 1; microbatches <= 8; ++microbatches) {
      SCOPED_TRACE(std::string(c.schedule) + ", " + std::to_string(microbatches));
      first_step(config_of(c, microbatches), comm::Transport::nccl, false);
    }
  }
}

// Not met yet: some schedule differs from MPI, and it is not known which and why.
TEST(LazyLoading, DISABLED_TheFirstStepIsThatOfMpiToTheBit) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.schedule);
    const auto config = config_of(c, 2);
    cuda_emulation::set_lazy_loading(true);
    const Outcome outcome = first_step(config, comm::Transport::nccl, true);
    cuda_emulation::set_lazy_loading(false);
    const Outcome expected = first_step(config, comm::Transport::mpi, true);
    expect_same_bits(outcome, expected);
    EXPECT_TRUE(same_bits(outcome.norms, expected.norms));
  }
}

}  // namespace
}  // namespace trireme::test
