// Machine: what a machine's parts can do, as read from a machine file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.hpp"
#include "io/deck_key.hpp"

namespace trireme::plan {

// Rates of one rank and its links. Units are those of the program: bytes, FLOPs, seconds.
struct Machine {
  std::string name;
  std::string source;  // measured, or data sheet
  bool gpus = false;   // a rank computes on a GPU
  std::int64_t ranks_per_node = 1;
  double memory_bytes = 0;       // of a rank
  double host_memory_bytes = 0;  // beside its GPU, of the node's; 0: not known

  struct Products {  // FLOP/s of large products, by the operands' type
    double fp64 = 0, fp32 = 0, bf16 = 0, fp16 = 0, fp8 = 0;
    double reached = 1;     // share of these rates that the largest products reach
    double half_inner = 0;  // inner extent at which half of the rate is reached
    double half_side = 0;   // the same of the smaller of rows and columns
  } products;
  double attention_forward = 0, attention_backward = 0;  // shares of products' rate
  double attention_half_width = 0;  // head width at which half of these is reached
  double sweep_rate = 0;            // bytes a second of other kernels
  double narrow_sweep_rate = 0;     // the same of 16-bit tensors; 0: as above
  double update_rate = 0;           // the same of updates; 0: as above
  double host_sweep_rate = 2e10;    // of updates on the host, where ranks have GPUs
  double kernel_seconds = 0;        // of a kernel that does nothing
  double step_seconds = 0;          // of a step beside its kernels and messages

  struct Links {
    double node_rate = 0, node_latency = 0;  // bytes a second of a rank, seconds
    double network_rate = 0, network_latency = 0;
    double overlap = 0;       // share of a message's time that passes beside kernels
    double host_rate = 2e10;  // bytes a second between a GPU and its host's memory
  } links;
  double write_rate = 0, read_rate = 0;  // bytes a second of a node, to checkpoints
  double failure_hours = 0;              // of one rank, mean time between failures
  double restart_seconds = 0;            // from a failure to the first step

  // FLOP/s of a large product. Throws Error(resources) for a type that the file gives no
  // rate for.
  double product_rate(DType type) const;
};

// The keys of a machine file, with units and plausible ranges.
std::span<const io::DeckKey> machine_table();

// Throws as io::Deck::load(); what is wrong is reported all at once.
Machine read_machine(const std::string& path);
Machine parse_machine(const std::string& text, const std::string& name);

// Of today's GPUs, or of one core each: to tell which of two decks takes longer, where no
// machine file says more.
Machine nominal_machine(bool gpus);

// The file that read_machine() reads as `machine`, with what each key means.
std::string machine_text(const Machine& machine);

}  // namespace trireme::plan
