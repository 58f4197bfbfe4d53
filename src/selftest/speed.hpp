// The speed of every host's parts, and which hosts are far below the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/world.hpp"
#include "launch/compute_device.hpp"
#include "selftest/selftest.hpp"

namespace trireme::selftest {

struct SpeedOptions {
  double seconds = 20;                 // all of it, about
  bool quick = false;                  // sizes that tell nothing, to see that it runs
  std::string only = "*";              // names of measurements that are made
  std::optional<double> below;         // of the median, for all; else each has its own
  std::optional<Fault> fault;          // slows its rank down; of memory spoils a byte
  std::optional<std::string> exclude;  // a file for the names of hosts to leave out
};

// What is measured, in order.
std::vector<std::string_view> speed_names();

// Measures on all ranks at once and prints a table whose length does not depend on their
// number. Hosts, by the names that Slurm has for them where srun started the ranks, that
// are below the limits, or whose memory is wrong, are printed, added to the job's bad
// hosts (launch::name_bad_host()) and, with all others of the file dropped, written to
// options.exclude, which is empty where there are none. Rank 0 holds some ten bytes for
// each rank. Collective over the world. Throws, on every rank, Error(corruption) naming
// hosts, if there are any; else what a measurement throws.
void run_speed(comm::World& world, const launch::ComputeDevice& on,
               const SpeedOptions& options);

}  // namespace trireme::selftest
