// The functions of MPI that Trireme calls, on simulated ranks.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "scale/fake_state.hpp"

namespace ts = trireme::scale;

extern "C" {

int gethostname(char* name, std::size_t bytes) noexcept {
  const int node =
      ts::job != nullptr && ts::current >= 0 ? ts::current / ts::job->on_node : 0;
  std::snprintf(name, bytes, "node%05d", node);
  return 0;
}

int MPI_Init_thread(int*, char***, int required, int* provided) {
  *provided = required;
  return MPI_SUCCESS;
}
int MPI_Initialized(int* flag) {
  *flag = 1;
  return MPI_SUCCESS;
}
int MPI_Finalized(int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}
int MPI_Finalize() { return MPI_SUCCESS; }
int MPI_Abort(MPI_Comm, int code) { std::_Exit(code); }
int MPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler) { return MPI_SUCCESS; }
int MPI_Win_set_errhandler(MPI_Win, MPI_Errhandler) { return MPI_SUCCESS; }
int MPI_Comm_free(MPI_Comm* comm) {
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}
int MPI_Win_free(MPI_Win* window) {
  *window = MPI_WIN_NULL;
  return MPI_SUCCESS;
}

int MPI_Comm_dup(MPI_Comm, MPI_Comm* copy) {
  int& made = ts::job->duplicates[static_cast<std::size_t>(ts::current)];
  *copy = ts::handle<MPI_Comm>(ts::world_comm + ++made);
  ts::count_collective(ts::levels(), 8);
  return MPI_SUCCESS;
}

int MPI_Comm_split_type(MPI_Comm, int, int, MPI_Info, MPI_Comm* part) {
  *part = ts::handle<MPI_Comm>(ts::node_comm + ts::current / ts::job->on_node);
  ts::count_collective(ts::levels(), 8);
  return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  const bool node = ts::comm_of(comm) >= ts::node_comm;
  *rank = node ? ts::current % ts::job->on_node : ts::current;
  return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int* size) {
  *size = ts::comm_of(comm) >= ts::node_comm ? ts::job->on_node : ts::job->ranks;
  return MPI_SUCCESS;
}

int MPI_Comm_get_attr(MPI_Comm, int, void* value, int* found) {
  static int greatest_tag = 2147483647;
  *static_cast<int**>(value) = &greatest_tag;
  *found = 1;
  return MPI_SUCCESS;
}

// A parallel HDF5 would be told of the end.
int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function*, MPI_Comm_delete_attr_function*,
                           int* key, void*) {
  *key = 1;
  return MPI_SUCCESS;
}
int MPI_Comm_set_attr(MPI_Comm, int, void*) { return MPI_SUCCESS; }
int MPI_Comm_free_keyval(int*) { return MPI_SUCCESS; }

int MPI_Error_string(int code, char* text, int* length) {
  *length = std::snprintf(text, MPI_MAX_ERROR_STRING, "error %d", code);
  return MPI_SUCCESS;
}
int MPI_Error_class(int code, int* kind) {
  *kind = code;
  return MPI_SUCCESS;
}
int MPI_Get_library_version(char* text, int* length) {
  *length = std::snprintf(text, MPI_MAX_LIBRARY_VERSION_STRING, "counting MPI");
  return MPI_SUCCESS;
}

int MPI_Isend(const void* data, int count, MPI_Datatype, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const ts::Nobody nobody;
  ts::Counts& counts = ts::job->counted->of(ts::current);
  ++counts.messages;
  counts.bytes += count;
  counts.peers.insert(to);
  ts::Counts& there = ts::job->counted->of(to);
  ++there.received;
  there.peers.insert(ts::current);
  *request = ts::handle<MPI_Request>(ts::make_request(ts::current, true));
  const ts::Place place = {ts::comm_of(comm), to, tag, ts::current};
  ts::Queue& queue = ts::job->queues[place];
  const auto* const bytes = static_cast<const char*>(data);
  const auto size = static_cast<std::size_t>(count);
  if (queue.receives.empty()) {
    queue.messages.emplace_back(bytes, bytes + size);
    return MPI_SUCCESS;
  }
  const int id = queue.receives.front();
  queue.receives.pop_front();
  ts::deliver(id, bytes, size);
  if (queue.receives.empty()) ts::job->queues.erase(place);
  return MPI_SUCCESS;
}

int MPI_Irecv(void* to, int count, MPI_Datatype, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const ts::Nobody nobody;
  const int id =
      ts::make_request(ts::current, false, to, static_cast<std::size_t>(count));
  *request = ts::handle<MPI_Request>(id);
  const ts::Place place = {ts::comm_of(comm), ts::current, tag, from};
  ts::Queue& queue = ts::job->queues[place];
  if (queue.messages.empty()) {
    queue.receives.push_back(id);
    return MPI_SUCCESS;
  }
  const std::vector<char> message = std::move(queue.messages.front());
  queue.messages.pop_front();
  ts::deliver(id, message.data(), message.size());
  if (queue.messages.empty()) ts::job->queues.erase(place);
  return MPI_SUCCESS;
}

// Without a result it sleeps until something of this rank has come: a look in vain later
// would see no more.
int MPI_Test(MPI_Request* request, int* flag, MPI_Status*) {
  *flag = 1;
  if (*request == MPI_REQUEST_NULL) return MPI_SUCCESS;
  if (!ts::request_of(ts::number(*request)).done) ts::sleep();
  *flag = ts::request_of(ts::number(*request)).done ? 1 : 0;
  if (*flag != 0) ts::give_back(request);
  return MPI_SUCCESS;
}

int MPI_Testsome(int count, MPI_Request* requests, int* done, int* indices,
                 MPI_Status* statuses) {
  for (bool again = true;; again = false) {
    *done = 0;
    bool any = false;
    for (int i = 0; i < count; ++i) {
      if (requests[i] == MPI_REQUEST_NULL) continue;
      any = true;
      const ts::Request& request = ts::request_of(ts::number(requests[i]));
      if (!request.done) continue;
      statuses[*done] = {};
      statuses[*done].MPI_TAG = static_cast<int>(request.bytes);
      ts::give_back(&requests[i]);
      indices[(*done)++] = i;
    }
    if (!any) *done = MPI_UNDEFINED;
    if (*done != 0 || !again) return MPI_SUCCESS;
    ts::sleep();
  }
}

int MPI_Get_count(const MPI_Status* status, MPI_Datatype, int* count) {
  *count = status->MPI_TAG;
  return MPI_SUCCESS;
}

// From any rank. Where nothing has come the others run before it looks again.
int MPI_Iprobe(int, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  *flag = 0;
  for (const bool again : {true, false}) {
    const auto found = ts::first_message(ts::comm_of(comm), tag);
    if (found != ts::job->queues.end()) {
      *flag = 1;
      if (status == MPI_STATUS_IGNORE) return MPI_SUCCESS;
      *status = {};
      status->MPI_SOURCE = std::get<3>(found->first);
      status->MPI_TAG = static_cast<int>(found->second.messages.front().size());
      return MPI_SUCCESS;
    }
    if (again) ts::let_others_run();
  }
  return MPI_SUCCESS;
}
int MPI_Request_free(MPI_Request* request) {
  ts::give_back(request);
  return MPI_SUCCESS;
}
int MPI_Recv(void* to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status*) {
  MPI_Request request;
  MPI_Irecv(to, count, type, from, tag, comm, &request);
  for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  return MPI_SUCCESS;
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  ts::count_collective(ts::levels(), 0);
  return ts::meet(comm, nullptr, nullptr, 0, {}, request);
}

int MPI_Barrier(MPI_Comm comm) {
  MPI_Request request;
  MPI_Ibarrier(comm, &request);
  for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  return MPI_SUCCESS;
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request* request) {
  const int width = type == MPI_DOUBLE || type == MPI_UINT64_T ? 8 : 1;
  const auto bytes = static_cast<std::size_t>(count * width);
  ts::count_collective(ts::levels(), static_cast<std::int64_t>(bytes));
  const bool is_root = ts::current == root;
  return ts::meet(comm, data, data, bytes, {.gives = is_root, .all = false, .add = {}},
                  request);
}

int MPI_Iallreduce(const void* from, void* to, int, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  const bool wide = type == MPI_DOUBLE;
  ts::count_collective(ts::levels(), wide ? 8 : 4);
  const void* const value = from == MPI_IN_PLACE ? to : from;
  const auto add = [op, wide](std::vector<char>& sum, const void* more) {
    wide ? ts::combine<double>(sum, more, op) : ts::combine<int>(sum, more, op);
  };
  return ts::meet(comm, value, to, wide ? 8 : 4, {.gives = true, .all = true, .add = add},
                  request);
}

// Of a node's ranks: each gives its part of what all get.
int MPI_Iallgather(const void* from, int count, MPI_Datatype, void* to, int, MPI_Datatype,
                   MPI_Comm comm, MPI_Request* request) {
  const ts::Nobody nobody;
  const auto bytes = static_cast<std::size_t>(count);
  const auto ranks = static_cast<std::size_t>(ts::job->on_node);
  std::vector<char> parts(ranks * bytes);
  std::copy_n(static_cast<const char*>(from), bytes,
              parts.begin() + ts::current % ts::job->on_node * count);
  const auto add = [](std::vector<char>& all, const void* more) {
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<char>(all[i] | static_cast<const char*>(more)[i]);
  };
  ts::count_collective(ts::job->on_node - 1, count);
  return ts::meet(comm, parts.data(), to, parts.size(),
                  {.gives = true, .all = true, .add = add}, request);
}

int MPI_Win_allocate_shared(MPI_Aint bytes, int, MPI_Info, MPI_Comm comm, void* base,
                            MPI_Win* window) {
  {
    const ts::Nobody nobody;
    std::vector<char>& memory = ts::job->shared[ts::comm_of(comm)];
    if (ts::current % ts::job->on_node == 0)
      memory.resize(static_cast<std::size_t>(bytes));
  }
  MPI_Barrier(comm);
  *static_cast<void**>(base) = ts::job->shared[ts::comm_of(comm)].data();
  *window = ts::handle<MPI_Win>(ts::comm_of(comm));
  return MPI_SUCCESS;
}

int MPI_Win_shared_query(MPI_Win window, int, MPI_Aint* bytes, int* unit, void* base) {
  const std::vector<char>& memory = ts::job->shared[ts::number(window)];
  *bytes = static_cast<MPI_Aint>(memory.size());
  *unit = 1;
  *static_cast<const void**>(base) = memory.data();
  return MPI_SUCCESS;
}

}  // extern "C"
