// RankList: the members of a group, as arithmetic of the mesh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <span>
#include <string>

namespace trireme::comm {

// World ranks in a group's order: member i is first + (i mod inner) inner_stride +
// (i / inner) outer_stride. Every group of a mesh is of this form, so that who is in a
// group takes five numbers, however many ranks it has.
struct RankList {
  int first = 0;
  int inner = 1, inner_stride = 1;
  int outer = 1, outer_stride = 0;

  // `count` ranks from `first` on, `stride` apart.
  static RankList line(int first, int count, int stride = 1);
  // Throws Error(internal) unless the ranks are of this form.
  static RankList from_ranks(std::span<const int> ranks);

  int size() const { return inner * outer; }
  int rank(int index) const {
    return first + index % inner * inner_stride + index / inner * outer_stride;
  }
  // Its place in the list; -1: it is not there.
  int index_of(int world_rank) const;
  bool contains(int world_rank) const { return index_of(world_rank) >= 0; }
  // Equal lists of ranks are equal after this, where one is a line.
  RankList normal() const;
  auto operator<=>(const RankList&) const = default;
};

// "3,8,1,1,0", and back; throws std::exception for another text.
std::string text_of(const RankList& ranks);
RankList rank_list_from(const std::string& text);

// "0-3, 8": ranks in words, shortened where there are many.
std::string ranks_text(std::span<const int> ranks);
std::string ranks_text(const RankList& ranks);

}  // namespace trireme::comm
