// What ranks that wait too long tell each other: a note each to a few judges.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/hang_notes.hpp"

#include <sched.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "base/format.hpp"
#include "comm/mpi/claim.hpp"

namespace trireme::comm {

static_assert(std::is_trivially_copyable_v<Note>);

Note Note::for_rank(int rank, const Awaited& awaited, double waited) {
  Note note{.rank = rank,
            .waited = static_cast<float>(waited),
            .sequence = awaited.sequence,
            .collective = {}};
  std::size_t at = 0;
  for (const std::string& text : {awaited.operation, awaited.tensor, awaited.group}) {
    const std::size_t last = note.collective.size() - 1;
    for (std::size_t i = 0; i < text.size() && at < last; ++i)
      note.collective[at++] = text[i];
    ++at;
  }
  return note;
}

std::string Note::text() const {
  std::array<std::string_view, 3> parts;
  std::string_view left(collective.data(), collective.size());
  for (std::string_view& part : parts) {
    part = left.substr(0, left.find('\0'));
    left.remove_prefix(std::min(part.size() + 1, left.size()));
  }
  const auto& [operation, tensor, group] = parts;
  return format("{} #{}{}{} on axis '{}'", operation, sequence, tensor.empty() ? "" : " ",
                tensor, group);
}

HangNotes::HangNotes(WorldState& state, const Note& own, HangLimits limits)
    : state_(state),
      limits_(limits),
      own_index_(index_of(state.rank)),
      has_come_(is_judge() ? static_cast<std::size_t>(state.size) : 0) {
  static Note message;  // outlives the sends, which nobody waits for
  message = own;
  notes_.reserve(std::max(has_come_.size(), std::size_t{1}));
  add(own);
  for (int i = 0; i < judges(); ++i)
    if (i != own_index_) send(&message, sizeof message, judge(i));
}

// From the first rank to the last. On as many ranks as a power of 8, their ranks within
// nodes and groups of 8 differ.
int HangNotes::judge(int index) const {
  const std::int64_t last = state_.size - 1;
  return judges() == 1 ? 0 : static_cast<int>(index * last / (judges() - 1));
}

int HangNotes::index_of(int rank) const {
  for (int i = 0; i < judges(); ++i)
    if (judge(i) == rank) return i;
  return -1;
}

void HangNotes::send(const void* data, int bytes, int rank) {
  MPI_Request request;
  check_mpi(
      MPI_Isend(data, bytes, MPI_BYTE, rank, waiting_tag, state_.notes.get(), &request),
      "MPI_Isend");
  check_mpi(MPI_Request_free(&request), "MPI_Request_free");
}

void HangNotes::add(const Note& note) {
  if (is_judge()) has_come_[static_cast<std::size_t>(note.rank)] = true;
  notes_.push_back(note);
}

// False: nothing has come. A question is a message of no bytes.
bool HangNotes::receive() {
  int come = 0, bytes = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, waiting_tag, state_.notes.get(), &come, &status),
            "MPI_Iprobe");
  if (come == 0) return false;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  Note note;
  check_mpi(MPI_Recv(&note, sizeof note, MPI_BYTE, status.MPI_SOURCE, waiting_tag,
                     state_.notes.get(), MPI_STATUS_IGNORE),
            "MPI_Recv");
  if (bytes == 0)
    asked_ = true;
  else
    add(note);
  return true;
}

bool HangNotes::lower_judge_waits() const {
  for (int i = 0; i < own_index_; ++i)
    if (has_come_[static_cast<std::size_t>(judge(i))]) return true;
  return false;
}

void HangNotes::ask() {
  asked_ = true;
  for (int rank = 0; rank < state_.size; ++rank)
    if (index_of(rank) < 0) send(nullptr, 0, rank);
}

void HangNotes::listen() {
  const auto start = Clock::now();
  auto last_news = start;
  while (true) {
    const std::size_t before = notes_.size();
    while (receive()) {
    }
    hear_failure(state_);
    const auto now = Clock::now();
    if (notes_.size() > before) last_news = now;
    if (is_complete() || now - start > limits_.most) break;
    if (is_judge() && !asked_ && !lower_judge_waits() &&
        now - start >= own_index_ * limits_.turn) {
      ask();
      last_news = now;
    }
    if (is_judge() && now - last_news > limits_.quiet) break;
    if (!is_judge() && !asked_ && now - start > limits_.unasked) break;
    ::sched_yield();
  }
  std::ranges::sort(notes_, {}, &Note::rank);
}

bool HangNotes::speaks() const { return is_judge() ? !lower_judge_waits() : !asked_; }

bool HangNotes::is_late(int rank) const {
  return is_judge() ? !has_come_[static_cast<std::size_t>(rank)] : index_of(rank) >= 0;
}

}  // namespace trireme::comm
