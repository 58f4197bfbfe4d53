// What ranks are called in names of files, and the host that this one runs on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::comm {

// "00012" of rank 12, so that names sort as ranks do; more digits from 100,000 on.
std::string five_digits(int rank);

// As the system names it, without asking MPI.
std::string own_host();

}  // namespace trireme::comm
