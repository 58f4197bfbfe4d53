// The order of computation of each schedule, before messages are put in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "schedule/schedule.hpp"

namespace trireme::schedule {

// Forwards and backwards of one rank. Each function may return more microbatches than the
// shape has: those from shape.microbatches on are to be left out.
Schedule gpipe_order(const PipelineShape& shape);
Schedule one_f_one_b_order(const PipelineShape& shape, int rank);
Schedule interleaved_order(const PipelineShape& shape, int rank);
Schedule dualpipe_v_order(const PipelineShape& shape, int rank);

// Forwards and backward_inputs of one rank; fill_weights puts in the backward_weights.
Schedule zb_h1_order(const PipelineShape& shape, int rank);
Schedule zb_v_order(const PipelineShape& shape, int rank);

// Puts a backward_weight for each backward_input into the orders of all ranks. The rule:
// run all ranks at unit costs (forward = backward_input = backward_weight, messages
// free); a rank whose next action cannot start, because its input is missing or because
// `most` (chunk, microbatch) are alive, runs the oldest weight backward it owes, if any.
// What is owed at the end runs last. Throws Error(internal) if the orders do not run.
void fill_weights(const PipelineShape& shape, std::int64_t most,
                  std::vector<Schedule>& orders);

// Forwards of one rank of a V alone. With equal costs stage s runs microbatch i at time
// 2 i + s: a rank's two stages meet odd and even times, so that neither waits.
Schedule v_forward_order(const PipelineShape& shape, int rank);

// The schedules with sends and receives put in, as make_schedules describes. A receive is
// posted `ahead` computations before the one that needs it, at the latest.
std::vector<Schedule> with_messages(const PipelineShape& shape,
                                    const std::vector<Schedule>& orders,
                                    std::size_t ahead);

}  // namespace trireme::schedule
