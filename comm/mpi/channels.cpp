// GroupChannels: numbers of groups, and their share of the tags.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/channels.hpp"

#include <algorithm>

namespace trireme::comm {

void GroupChannels::set_tag_limit(int tag_limit) {
  // More collectives of one group than a program has in flight.
  constexpr int fewest_tags = 1 << 17, most_groups = 64;
  per_communicator_ = std::clamp(tag_limit / fewest_tags, 1, most_groups);
  tags_ = tag_limit / per_communicator_;
}

int GroupChannels::take(MPI_Comm world) {
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  const auto id = static_cast<int>(free - taken_.begin());
  if (free == taken_.end())
    taken_.push_back(true);
  else
    *free = true;
  if (id / per_communicator_ == communicators())
    communicators_.push_back(Communicator::duplicate(world));
  return id;
}

void GroupChannels::give_back(int id) { taken_[static_cast<std::size_t>(id)] = false; }

MPI_Comm GroupChannels::comm_of(int id) const {
  return communicators_[static_cast<std::size_t>(id / per_communicator_)].get();
}

GroupTags GroupChannels::tags_of(int id) const {
  return {id % per_communicator_ * tags_, tags_};
}

}  // namespace trireme::comm
