// mpi.h without the C++ bindings that MPI-3 removed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <mpi.h>  // IWYU pragma: export
