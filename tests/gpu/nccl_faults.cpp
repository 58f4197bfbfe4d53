// A program whose use of NCCL would hang on GPUs, or fails there, on purpose.
// SPDX-License-Identifier: Apache-2.0
// nccl_faults FAULT [FOLDER]: nccl_faults.sh runs it on the emulated device, which finds
// each.
#include <unistd.h>

#include <cuda_emulation/control.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/device_memory.hpp"
#include "base/graph.hpp"
#include "base/memory.hpp"
#include "comm/group.hpp"
#include "comm/mesh.hpp"
#include "comm/mpi/state.hpp"
#include "comm/nccl/call_watch.hpp"
#include "comm/recording.hpp"
#include "comm/watchdog.hpp"
#include "comm/world.hpp"
#include "kernels/cuda_emulation/nccl/faults.hpp"
#include "kernels/elementwise.hpp"

namespace {

using namespace trireme;
using namespace trireme::comm;

class Faults {
 public:
  // folder: of what the ranks' watchdogs write.
  Faults(World& world, std::string folder)
      : world_(world),
        folder_(std::move(folder)),
        stream_(Device::cuda(0)),
        x_(Device::cuda(0), DType::f32, {1 << 16}, MemoryClass::workspace, "x"),
        y_(Device::cuda(0), DType::f32, {1 << 16}, MemoryClass::workspace, "y") {}

  // Two ranks: each waits for the other's message before it sends its own.
  void receive_first(bool first) {
    const Mesh mesh(world_, {.pipeline = 2}, {}, Device::cuda(0), Transport::nccl);
    Group& group = mesh.group(Axis::pipeline);
    const int peer = 1 - world_.rank();
    Handle sent, received;
    if (!first) sent = group.send(stream_, x_.view(), peer);
    received = group.receive(stream_, y_.view(), peer);
    if (first) {
      received.wait();  // the stream holds, and what is sent starts after it
      sent = group.send(stream_, x_.view(), peer);
    }
    received.wait();
    sent.wait();
    stream_.synchronize();
  }

  // Two ranks that have posted receives when they load a kernel, whose result they send:
  // what a pipeline does in its first step.
  void load_after_receive(bool through_host) {
    cuda_emulation::set_lazy_loading(true);
    const Mesh mesh(world_, {.pipeline = 2}, {}, Device::cuda(0), Transport::nccl);
    Group& group = mesh.group(Axis::pipeline);
    const int peer = 1 - world_.rank();
    constexpr auto after = Group::PinnedMemory::free;
    if (through_host) group.send_through_host(true, after);
    Handle received = group.receive(stream_, y_.view(), peer);
    cuda_emulation::forget_loaded_kernels();
    kernels::fill(stream_, x_.view(), 1.0);
    group.send(stream_, x_.view(), peer).wait();
    received.wait();
    stream_.synchronize();
    if (through_host) group.send_through_host(false, after);
  }

  // Four ranks, two communicators: half of the ranks use the other one first.
  void orders(bool swapped) {
    const Mesh mesh(world_, {.data = 2, .tensor = 2}, {}, Device::cuda(0),
                    Transport::nccl);
    const bool other = swapped && world_.rank() % 2 == 1;
    Group& tensor = mesh.group(Axis::tensor);
    Handle first = (other ? tensor : mesh.everyone()).all_reduce(stream_, x_.view());
    Handle second = (other ? mesh.everyone() : tensor).all_reduce(stream_, y_.view());
    first.wait();
    second.wait();
    stream_.synchronize();
  }

  void sizes() {
    const Mesh mesh(world_, {.data = 2}, {}, Device::cuda(0), Transport::nccl);
    const TensorView part = x_.view().rows(0, 100 + world_.rank());
    mesh.everyone().all_reduce(stream_, part).wait();
    stream_.synchronize();
  }

  // The last rank never comes; the others wait for their GPUs, without a watchdog.
  void late() {
    const Mesh mesh(world_, {.data = 2}, {}, Device::cuda(0), Transport::nccl);
    world_.set_timeout(2);
    if (world_.rank() == 1) {
      for (int second = 0; second < 60; ++second) ::sleep(1);  // a signal wakes one
    }
    mesh.everyone().all_reduce(stream_, x_.view()).wait();
    stream_.synchronize();
  }

  // A rank whose communicators fail while a sum waits for the other one, which never
  // comes. Its host waits for the GPU, or is busy elsewhere, where the watchdog looks.
  void fails(ncclResult_t error, bool busy) {
    const Mesh mesh(world_, {.data = 2}, {}, Device::cuda(0), Transport::nccl);
    std::optional<Watchdog> dog;
    if (busy) dog.emplace(world_, WatchdogConfig{.seconds = 60, .directory = folder_});
    Group& group = mesh.group(Axis::data);
    group.all_reduce(stream_, x_.view()).wait();
    stream_.synchronize();
    if (world_.rank() == (busy ? 1 : 0)) {
      group.all_reduce(stream_, y_.view()).wait();
      cuda_emulation::nccl::fail_asynchronously(error, "socket closed");
      if (!busy) stream_.synchronize();
    }
    for (int second = 0; second < 60; ++second) ::sleep(1);
  }

  // The same of a sum that a launched graph holds.
  void fails_in_graph() {
    const Mesh mesh(world_, {.data = 2}, {}, Device::cuda(0), Transport::nccl);
    Group& group = mesh.group(Axis::data);
    RecordedCalls calls;
    const Graph graph = Graph::record(stream_, [&] {
      const RecordingScope scope(calls);
      group.all_reduce(stream_, x_.view()).wait();
    });
    for (int launch = 0; launch < (world_.rank() == 0 ? 2 : 1); ++launch) {
      stream_.synchronize();
      graph.launch(stream_);
      calls.replay(stream_);
    }
    if (world_.rank() == 0) {
      cuda_emulation::nccl::fail_asynchronously(ncclRemoteError, "socket closed");
      stream_.synchronize();
    }
    stream_.synchronize();
    for (int second = 0; second < 60; ++second) ::sleep(1);
  }

  // The same of communicators that share resources: giving up one of them ends the work
  // of all, and the job still ends with the error.
  void fails_in_family() {
    world_.set_nccl_sharing(true);
    const Mesh mesh(world_, {.data = 2, .tensor = 2}, {}, Device::cuda(0),
                    Transport::nccl);
    mesh.everyone().all_reduce(stream_, x_.view()).wait();
    stream_.synchronize();
    if (world_.rank() == 0) {
      mesh.group(Axis::tensor).all_reduce(stream_, y_.view()).wait();
      cuda_emulation::nccl::fail_asynchronously(ncclRemoteError, "socket closed");
      stream_.synchronize();
    }
    for (int second = 0; second < 60; ++second) ::sleep(1);
  }

  // Two ranks sum thrice by one recording: each launch sums and is counted. Where `mixed`
  // rank 1 calls where rank 0 launches.
  void recorded(bool mixed) {
    const Mesh mesh(world_, {.data = 2}, {}, Device::cuda(0), Transport::nccl);
    Group& group = mesh.everyone();
    kernels::fill(stream_, x_.view(), 1.0);
    RecordedCalls calls;
    const auto sum = [&] { group.all_reduce(stream_, x_.view()).wait(); };
    const Graph graph = Graph::record(stream_, [&] {
      const RecordingScope scope(calls);
      sum();
    });
    require(group.collectives() == 0, "a recording is counted");
    for (int launch = 0; launch < 3; ++launch) {
      if (mixed && world_.rank() == 1) {
        sum();
      } else {
        graph.launch(stream_);
        calls.replay(stream_);
      }
    }
    float first = 0;
    copy_bytes(stream_, x_.view().rows(0, 1), TensorView(&first, DType::f32, {1}));
    require(first == 8 && group.collectives() == 3, "{} after {} sums", first,
            group.collectives());
  }

  // What a recording does not allow: to make communicators, and messages of the host.
  void unrecordable(const std::string& what) {
    const Mesh mesh(world_, {.data = 2}, {}, Device::cuda(0),
                    what == "recorded_mpi" ? Transport::mpi : Transport::nccl);
    RecordedCalls calls;
    Graph::record(stream_, [&] {
      const RecordingScope scope(calls);
      if (what == "recorded_mesh")
        const Mesh more(world_, {.pipeline = 2}, {}, Device::cuda(0), Transport::nccl);
      float one = 1;
      Stream host;
      if (what == "recorded_host")
        mesh.everyone().all_reduce(host, TensorView(&one, DType::f32, {1})).wait();
      else
        mesh.everyone().all_reduce(stream_, x_.view()).wait();
    });
  }

  // A call of NCCL that waits for what never comes.
  void stuck() {
    world_.set_timeout(1);
    const std::string axis = "data";
    const auto watch = CallWatch::get();
    const CallWatch::Scope scope(*watch, *current_state(), "ncclCommSplit", axis);
    for (int second = 0; second < 60; ++second) ::sleep(1);
  }

  int run(const std::string& fault) {
    if (fault == "late") late();
    if (fault == "exchange") receive_first(false);
    if (fault == "receive_first") receive_first(true);
    if (fault == "load_after_receive") load_after_receive(false);
    if (fault == "load_before_message") load_after_receive(true);
    if (fault == "one_order") orders(false);
    if (fault == "two_orders") orders(true);
    if (fault == "sizes") sizes();
    if (fault == "stuck") stuck();
    if (fault == "remote_error") fails(ncclRemoteError, false);
    if (fault == "system_error") fails(ncclSystemError, true);
    if (fault == "graph_error") fails_in_graph();
    if (fault == "family_error") fails_in_family();
    if (fault == "recorded") recorded(false);
    if (fault == "recorded_mixed") recorded(true);
    if (fault == "recorded_mesh" || fault == "recorded_mpi" || fault == "recorded_host")
      unrecordable(fault);
    return 0;
  }

 private:
  World& world_;
  std::string folder_;
  Stream stream_;
  Buffer x_, y_;
};

}  // namespace

int main(int argc, char** argv) {
  World world(argc, argv);
  return guarded(world, [&] {
    return Faults(world, argc > 2 ? argv[2] : "").run(argc > 1 ? argv[1] : "");
  });
}
