// The phases of a start besides MPI's own: the report of where ranks run, opening data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "comm/world.hpp"
#include "io/sample_source.hpp"

namespace trireme::scale {

// Of the data: more than stay open, and as many whatever the number of ranks is.
inline constexpr int token_files = 100;
// Of a step and rank: those of a few files.
inline constexpr int samples_of_step = 12, samples_of_file = 3;
inline constexpr int files_of_step = samples_of_step / samples_of_file + 1;

// Makes `token_files` files of llm.c in a folder, and a file that stands for the program.
void make_start_files(const std::string& folder);

// Which GPU each rank of a node computes on, and that no two share one.
void choose_devices(comm::World& world);

// All ranks compare deck and program; rank 0 prints where they run.
void compare(comm::World& world, const std::string& folder);
void report(comm::World& world);

// Opens those files. reads: this rank is going to read of them.
std::unique_ptr<io::SampleSource> open_data(comm::World& world, const std::string& folder,
                                            bool reads);
// The samples of a step: each file that holds some of them is opened once.
void read_data(const io::SampleSource& source, int rank);
// The same with an open for each sample.
void read_data_anew(const std::string& folder, int rank);

}  // namespace trireme::scale
