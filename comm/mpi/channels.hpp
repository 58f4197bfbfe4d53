// GroupChannels: in which communicator, and with which tags, a group's messages travel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "comm/mpi/communicator.hpp"

namespace trireme::comm {

// Tags first, first + 1, ..., first + count - 1.
struct GroupTags {
  int first = 0, count = 0;
};

// Groups are told apart by tags, so that a mesh costs no communicator of its own: making
// one takes time that grows with the ranks, for each of some 14 groups. As many groups
// share a communicator as MPI's greatest tag allows; the next is made when these are
// used up. All ranks take and give back in one order, and so have the same numbers.
class GroupChannels {
 public:
  // tag_limit: MPI's greatest tag.
  void set_tag_limit(int tag_limit);
  // The lowest free number. Collective over `world` where a communicator is made for it.
  int take(MPI_Comm world);
  void give_back(int id);
  MPI_Comm comm_of(int id) const;
  GroupTags tags_of(int id) const;
  int communicators() const { return static_cast<int>(communicators_.size()); }

 private:
  int per_communicator_ = 1, tags_ = 32768;
  std::vector<bool> taken_;
  std::deque<Communicator> communicators_;
};

}  // namespace trireme::comm
