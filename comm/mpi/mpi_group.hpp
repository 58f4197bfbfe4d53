// MpiGroup: a group whose collectives are made of MPI's point-to-point messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/group.hpp"
#include "comm/mpi/operation.hpp"
#include "comm/mpi/state.hpp"
#include "comm/staging.hpp"

namespace trireme::comm {

class MpiGroup final : public Group {
 public:
  // Collective over the world, in one order on all ranks: each makes its own group.
  MpiGroup(WorldState& state, std::string name, const RankList& members);
  ~MpiGroup() override;
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  void progress() override { state_.progress(); }
  void bound_staging(std::int64_t most) override { staging_.set_limit(most); }
  std::size_t staging_bytes() const override { return staging_.bytes(); }

  WorldState& state() { return state_; }
  // Of all ranks of the world: messages name world ranks, and carry the group's tags.
  MPI_Comm comm() const { return comm_; }
  const GroupTags& tags() const { return tags_; }
  // World ranks, in the order of the group.
  const RankList& members() const { return members_; }
  StagingPool& staging() { return staging_; }
  // An operation that holds its staging memory and is ready to post(). Tensors on the
  // host.
  MpiOperation& prepare(const Call& call, const TensorView& from, const TensorView& to);
  void recycle(MpiOperation* operation) { free_.push_back(operation); }
  // Enters time that the program was held up by an operation.
  void held_up(Collective kind, double seconds) { add_exposed(kind, seconds); }

 private:
  Handle start(const Call& call, Stream& stream, const TensorView& from,
               const TensorView& to) override;
  void compare(const Call& call) override;

  WorldState& state_;
  RankList members_;
  int id_;
  MPI_Comm comm_;
  GroupTags tags_;
  StagingPool staging_;
  std::vector<std::unique_ptr<MpiOperation>> operations_;
  std::vector<MpiOperation*> free_;
};

}  // namespace trireme::comm
