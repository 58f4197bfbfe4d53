// What the simulated ranks share: fibers, messages in flight, whose turn it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <tuple>
#include <type_traits>
#include <utility>

#include "comm/mpi/mpi.hpp"
#include "scale/fake_mpi.hpp"

namespace trireme::scale {

// The rank that runs, and the one whose heap grows: memory of the job itself is nobody's.
inline int current = -1, owner = -1;

struct Fiber {
  ucontext_t context{};
  void* stack = nullptr;
  bool runs = false, ready = false;
};

struct Request {
  bool done = false, free = true;
  int owner = 0;
  void* to = nullptr;
  std::size_t capacity = 0, bytes = 0;
};

// What no receive has been posted for yet, or receives that nothing has come for.
using Place = std::tuple<int, int, int, int>;  // communicator, destination, tag, source
struct Queue {
  std::deque<std::vector<char>> messages;
  std::deque<int> receives;
};

// One of MPI's own collectives, between the first rank's call and the last one's.
struct Meeting {
  int come = 0, gone = 0;
  bool ready = false;
  std::vector<char> value;
  std::vector<int> waiting;  // requests
  std::vector<void*> results;
};

struct Job {
  int ranks = 0, on_node = 1;
  FakeJob* counted = nullptr;
  ucontext_t scheduler{};
  std::vector<Fiber> fibers;
  std::deque<int> ready;
  std::vector<Request> requests;
  std::vector<int> free_requests;
  std::map<Place, Queue> queues;
  std::map<std::pair<int, int>, Meeting> meetings;  // communicator, number
  std::vector<std::map<int, int>> calls;            // of a rank on a communicator
  std::vector<int> duplicates;                      // made by a rank
  std::map<int, std::vector<char>> shared;          // memory of a node
  const std::function<void(int)>* work = nullptr;
};

inline Job* job = nullptr;

// Memory of the job itself is nobody's.
class Nobody {
 public:
  Nobody() : before_(owner) { owner = -1; }
  ~Nobody() { owner = before_; }

 private:
  int before_;
};

template <class Handle>
Handle handle(int number) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<Handle>(static_cast<std::intptr_t>(number));
  else
    return static_cast<Handle>(number);
}
template <class Handle>
int number(Handle value) {
  if constexpr (std::is_pointer_v<Handle>)
    return static_cast<int>(reinterpret_cast<std::intptr_t>(value));
  else
    return static_cast<int>(value);
}

// Communicators: 1 is the world, then duplicates, in one order on all ranks; this one is
// the node.
constexpr int world_comm = 1, node_comm = 1 << 20;
inline int comm_of(MPI_Comm comm) {
  return comm == MPI_COMM_WORLD ? world_comm : number(comm);
}

inline void wake(int rank) {
  Fiber& fiber = job->fibers[static_cast<std::size_t>(rank)];
  if (fiber.ready || !fiber.runs || rank == current) return;
  fiber.ready = true;
  job->ready.push_back(rank);
}

// Until another rank has done something for this one.
inline void sleep() {
  const int rank = current;
  const int before = owner;
  swapcontext(&job->fibers[static_cast<std::size_t>(rank)].context, &job->scheduler);
  owner = before;
}

// Until all others that can do something have done it.
inline void let_others_run() {
  const Nobody nobody;
  job->fibers[static_cast<std::size_t>(current)].ready = true;
  job->ready.push_back(current);
  sleep();
}

// The first queue with a message for the rank that runs.
inline std::map<Place, Queue>::iterator first_message(int comm, int tag) {
  auto at = job->queues.lower_bound({comm, current, tag, 0});
  for (; at != job->queues.end(); ++at) {
    const auto& [c, to, t, from] = at->first;
    if (c != comm || to != current || t != tag) break;
    if (!at->second.messages.empty()) return at;
  }
  return job->queues.end();
}

inline int new_request() {
  const Nobody nobody;
  if (job->free_requests.empty()) {
    job->free_requests.push_back(static_cast<int>(job->requests.size()) + 1);
    job->requests.emplace_back();
  }
  const int id = job->free_requests.back();
  job->free_requests.pop_back();
  return id;
}

inline Request& request_of(int id) {
  return job->requests[static_cast<std::size_t>(id - 1)];
}

inline int make_request(int owner, bool done, void* to = nullptr,
                        std::size_t capacity = 0) {
  const int id = new_request();
  request_of(id) = {done, false, owner, to, capacity, 0};
  return id;
}

inline void give_back(MPI_Request* request) {
  const Nobody nobody;
  request_of(number(*request)).free = true;
  job->free_requests.push_back(number(*request));
  *request = MPI_REQUEST_NULL;
}

inline void deliver(int id, const char* data, std::size_t bytes) {
  Request& request = request_of(id);
  if (bytes > 0) std::memcpy(request.to, data, std::min(bytes, request.capacity));
  request.bytes = bytes;
  request.done = true;
  wake(request.owner);
}

// Messages of MPI's own collectives, which nobody sees: by the usual algorithms.
inline void count_collective(std::int64_t messages, std::int64_t bytes) {
  Counts& counts = job->counted->of(current);
  counts.messages += messages;
  counts.received += messages;
  counts.bytes += messages * bytes;
}

inline std::int64_t levels() {
  return std::bit_width(static_cast<unsigned>(job->ranks - 1));
}

// How a rank takes part in one of MPI's own collectives.
struct Part {
  bool gives = true;  // it has the value, or a part of it
  bool all = true;    // everyone has to come before anyone goes
  std::function<void(std::vector<char>&, const void*)> add;
};

inline int meet(MPI_Comm comm, const void* value, void* result, std::size_t bytes,
                const Part& part, MPI_Request* request) {
  const Nobody nobody;
  const int c = comm_of(comm);
  const int at = job->calls[static_cast<std::size_t>(current)][c]++;
  Meeting& meeting = job->meetings[{c, at}];
  const int id = make_request(current, false, result, bytes);
  *request = handle<MPI_Request>(id);
  if (part.gives && bytes > 0) {
    const char* const data = static_cast<const char*>(value);
    if (meeting.value.empty())
      meeting.value.assign(data, data + bytes);
    else
      part.add(meeting.value, value);
  }
  ++meeting.come;
  const bool complete = meeting.come == (c >= node_comm ? job->on_node : job->ranks);
  if (part.all ? complete : part.gives) meeting.ready = true;
  meeting.waiting.push_back(id);
  if (!meeting.ready) return MPI_SUCCESS;
  for (const int other : meeting.waiting)
    deliver(other, meeting.value.data(), meeting.value.size());
  meeting.waiting.clear();
  if (complete) job->meetings.erase({c, at});
  return MPI_SUCCESS;
}

template <class T>
void combine(std::vector<char>& value, const void* more, MPI_Op op) {
  T a{}, b{};
  std::memcpy(&a, value.data(), sizeof a);
  std::memcpy(&b, more, sizeof b);
  const T result = op == MPI_MAX ? std::max(a, b) : std::min(a, b);
  std::memcpy(value.data(), &result, sizeof result);
}

}  // namespace trireme::scale
