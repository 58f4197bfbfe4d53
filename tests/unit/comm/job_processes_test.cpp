// Ranks of a job among the processes of a host.
// SPDX-License-Identifier: Apache-2.0
#include "comm/job_processes.hpp"

#include <gtest/gtest.h>

#include <string>

namespace trireme::comm {
namespace {

using namespace std::string_literals;

TEST(JobProcesses, AreToldByTheLaunchersVariables) {
  const JobNames open_mpi = job_names(
      "HOME=/\0PMIX_NAMESPACE=77\0PMIX_RANK=3\0OMPI_COMM_WORLD_RANK=5\0SLURM_JOB_ID=9\0"s);
  EXPECT_EQ(open_mpi.job, "77");
  EXPECT_EQ(open_mpi.rank, 5);
  const JobNames slurm = job_names("SLURM_JOB_ID=12\0SLURM_STEP_ID=0\0SLURM_PROCID=7\0"s);
  EXPECT_EQ(slurm.job, "12.0");
  EXPECT_EQ(slurm.rank, 7);
  // Names that only begin alike, a value that is none, no value, no end.
  const JobNames other = job_names("PMIX_RANKS=3\0NOT_PMIX_RANK=4\0PMI_RANK=x\0PATH"s);
  EXPECT_EQ(other.job, "");
  EXPECT_FALSE(other.rank.has_value());
  EXPECT_EQ(job_names("").job, "");
}

TEST(JobProcesses, ARankHasStartedWhenOneOfItsProcessesIsTheProgram) {
  const JobHere here = sort_processes({{2, 40, "bash", false, false},
                                       {2, 42, "trireme", true, false},
                                       {1, 31, "sleep", false, false},
                                       {1, 30, "bash", false, false},
                                       {0, 20, "trireme", true, true}},
                                      4);
  EXPECT_EQ(here.started, (std::vector<int>{0, 2}));
  EXPECT_EQ(describe(here),
            "rank 1 has not started the program (process 30, 'bash'); rank 0 is stopped "
            "(process 20, 'trireme'); 1 of the 4 ranks of this host have no process");
}

TEST(JobProcesses, WhereAllHaveComeTheOthersAreToBeLookedAt) {
  const JobHere here = sort_processes(
      {{8, 40, "trireme", true, false}, {9, 42, "trireme", true, false}}, 2);
  EXPECT_TRUE(
      describe(here).starts_with("ranks 8, 9 of this host have come: look at the "
                                 "hosts of other ranks"))
      << describe(here);
  EXPECT_TRUE(describe(JobHere{}).starts_with("this rank has come"));
}

}  // namespace
}  // namespace trireme::comm
