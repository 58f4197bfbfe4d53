// A program that goes wrong on purpose: comm_faults <fault>.
// SPDX-License-Identifier: Apache-2.0
// comm_faults.sh runs it. With TRIREME_TEST_DEVICE=cuda its tensors lie on a GPU.
// Fortified headers have other functions in place of those that are replaced here.
#undef _FORTIFY_SOURCE
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "base/log.hpp"
#include "base/memory.hpp"
#include "comm/async_errors.hpp"
#include "comm/group.hpp"
#include "comm/mesh.hpp"
#include "comm/one_time.hpp"
#include "comm/start_limit.hpp"
#include "comm/watchdog.hpp"
#include "comm/world.hpp"

namespace {

using namespace trireme;
using namespace trireme::comm;

Device device() {
  const char* wanted = std::getenv("TRIREME_TEST_DEVICE");
  return wanted != nullptr && std::string(wanted) == "cuda" ? Device::cuda(0)
                                                            : Device::host();
}

// A signal wakes one sleep.
void oversleep() {
  for (int second = 0; second < 60; ++second) ::sleep(1);
}

// The name of a folder on a disk that hangs: who opens anything there does not come back.
std::atomic<const char*> hanging_folder{nullptr};

int open_unless_it_hangs(int folder, const char* path, int flags, mode_t mode) {
  const char* const hangs = hanging_folder;
  if (hangs != nullptr && std::strstr(path, hangs) != nullptr) oversleep();
  return static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}

}  // namespace

// In place of the C library's.
extern "C" int open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_unless_it_hangs(AT_FDCWD, path, flags, mode);
}

extern "C" int openat(int folder, const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_unless_it_hangs(folder, path, flags, mode);
}

// Of fortified callers.
extern "C" int __open_2(const char* path, int flags) { return open(path, flags); }
extern "C" int __openat_2(int folder, const char* path, int flags) {
  return openat(folder, path, flags);
}

namespace {

class Faults {
 public:
  explicit Faults(World& world)
      : world_(world),
        flight_(std::getenv("TRIREME_TEST_FOLDER")),
        mesh_(world, {.data = world.size()}, {}, device()),
        stream_(device()),
        x_(device(), DType::f32, {1 << 20}, MemoryClass::workspace, "x") {}

  void reduce(std::int64_t elements) {
    mesh_.everyone().all_reduce(stream_, x_.view().rows(0, elements)).wait();
  }

  // As it is before there is a deck.
  void limit_of_start() {
    ::setenv("TRIREME_START_SECONDS", "2.5", 1);
    limit_start(world_);
  }

  int run(const std::string& fault) {
    const bool last = world_.rank() == world_.size() - 1;
    reduce(1024);
    world_.set_timeout(watched(fault) ? 0 : 2);
    if (fault == "throw_one" && last) fail(Status::corruption, "bit {} flipped", 7);
    if (fault == "slow_worker") first_rank_then_others(world_, 1, [] { oversleep(); });
    if (fault == "throw_all") fail(Status::diverged, "loss is nan");
    if (fault == "internal" && last) fail(Status::internal, "an invariant broke");
    if (fault == "memory" && last) throw std::bad_alloc();
    if (fault == "agreed")
      world_.agree([&] { require(!last, Status::missing_input, "no file"); });
    if (fault == "in_flight" && last) {
      const Handle left = mesh_.everyone().all_reduce(stream_, x_.view());
      fail(Status::io, "lost in flight");
    }
    if (fault == "in_flight") {
      ::sleep(1);
      reduce(x_.view().elements());
    }
    if (fault == "in_flight_all") {
      const Handle left = mesh_.everyone().all_reduce(stream_, x_.view());
      fail(Status::io, "lost on every rank");
    }
    // The end of the job wakes it, and gives it a second before it kills it.
    if (fault == "woken" && world_.rank() == 0) ::raise(SIGSTOP);
    if (fault == "late" && last) oversleep();
    if (fault == "late_without_disk") without_disk(last);
    // Some have waited for a second when the time of the others is over.
    if (fault == "late_apart") {
      world_.set_timeout(5);
      if (last) oversleep();
      if (world_.rank() % 3 == 2) ::usleep(4000000);
    }
    // The ranks that judge hangs, of 12.
    constexpr std::array judges = {0, 1, 3, 4, 6, 7, 9, 11};
    if (fault == "late_judges" && std::ranges::count(judges, world_.rank()) > 0)
      oversleep();
    if (fault == "late_at_start") limit_of_start();
    if (fault.starts_with("late_at") && last) oversleep();
    if (fault.starts_with("late_at")) world_.barrier();
    if (fault == "swapped") swapped(last);
    if (fault == "axes") other_axis(last);
    if (fault == "short" || fault == "long" || fault == "large") count(fault, last);
    if (fault == "killed" && last) ::raise(SIGKILL);
    if (fault == "segv" && last) ::raise(SIGSEGV);
    if (watched(fault)) return watch(fault, last);
    if (fault.starts_with("compared_")) return compared(fault, last);
    if (fault == "gpu" || fault == "gpu_asleep") gpu(fault, last);
    reduce(1000);
    log::info("done");
    return 0;
  }

 private:
  void swapped(bool last) {
    if (last) mesh_.everyone().broadcast(stream_, x_.view(), 0).wait();
    reduce(1000);
    mesh_.everyone().broadcast(stream_, x_.view(), 0).wait();
  }

  void other_axis(bool last) {
    if (last) mesh_.replicas().all_reduce(stream_, x_.view()).wait();
    reduce(1000);
  }

  void count(const std::string& fault, bool last) {
    const std::int64_t due = fault == "large" ? 1 << 20 : 1000;
    const std::int64_t own = fault == "short" ? 900 : fault == "long" ? 1100 : 1000000;
    reduce(last ? own : due);
  }

  // A watchdog is in force, whose looks are rare; its folder hangs when the time is over.
  void without_disk(bool last) {
    const Watchdog dog(world_, {.seconds = 1000, .directory = flight_});
    hanging_folder = ::strrchr(flight_.c_str(), '/') + 1;
    if (last) oversleep();
    reduce(1000);
  }

  static bool watched(const std::string& fault) { return fault.starts_with("watch_"); }

  // No time-out of a wait: the watchdog alone finds these.
  int watch(const std::string& fault, bool last) {
    Watchdog dog(world_, {.seconds = 1, .slow_factor = 4, .directory = flight_});
    dog.beat("training step", 7);
    if (fault == "watch_in_flight") {
      Handle in_flight = mesh_.everyone().all_reduce(stream_, x_.view());
      if (last) oversleep();
      in_flight.wait();
    }
    if (fault == "watch_sleep" && last) oversleep();
    if (fault == "watch_stop" && last) ::raise(SIGSTOP);
    if (fault == "watch_stop_at_once") {  // before it has told of these groups
      const Mesh later(world_, {.tensor = world_.size()}, {}, device());
      if (last) ::raise(SIGSTOP);
      later.group(Axis::tensor).all_reduce(stream_, x_.view()).wait();
    }
    if (fault == "watch_skip" && last) world_.barrier();
    if (fault == "watch_swap") swapped(last);
    if (fault == "watch_axis") other_axis(last);
    if (fault == "watch_count") count("short", last);
    if (fault == "watch_long_count") count("long", last);
    if (fault == "watch_pair") pair(last);
    if (fault == "watch_slow") slow(dog, last);
    if (fault == "watch_save") save(dog, last);
    if (fault == "watch_continued") continued(dog, last);
    reduce(1000);
    dog.beat("training step", 8);
    world_.barrier();
    log::info("done");
    return 0;
  }

  // Collectives that are compared before they start. The last rank's would go through
  // unseen, or hang, without that.
  int compared(const std::string& fault, bool last) {
    check_collectives(true);
    Group& everyone = mesh_.everyone();
    reduce(1000);
    const TensorView x = x_.view().rows(0, 1000);
    const TensorView same_bytes(x.raw(), DType::bf16, {2000});
    if (fault == "compared_type") {
      everyone.all_reduce(stream_, last ? same_bytes : x).wait();
    }
    if (fault == "compared_count") count("short", last);
    if (fault == "compared_order") swapped(last);
    if (fault == "compared_root") everyone.broadcast(stream_, x, last ? 1 : 0).wait();
    if (fault == "compared_sum")
      everyone.all_reduce(stream_, x, last ? Reduce::max : Reduce::sum).wait();
    if (fault == "compared_axis") other_axis(last);
    log::info("done");
    return 0;
  }

  void pair(bool last) {
    Group& everyone = mesh_.everyone();
    if (last) oversleep();
    if (world_.rank() == 0)
      everyone.receive(stream_, x_.view(), world_.size() - 1).wait();
  }

  // A step of several times the limit, in which the others wait for a rank that gets on.
  void slow(Watchdog& dog, bool last) {
    for (int part = 0; part < 12 && last; ++part) {
      ::usleep(300000);
      dog.beat("training step", 7);
    }
  }

  // A save of twice the limit by one rank, without any progress; the others have gone on
  // and wait for it.
  void save(Watchdog& dog, bool last) {
    if (!last) return;
    dog.beat_slow("saving a checkpoint", 7);
    ::sleep(2);
  }

  // Stopped for less than the others bear, and sent on.
  void continued(Watchdog& dog, bool last) {
    if (!last) return;
    if (const pid_t child = ::fork(); child == 0) {
      ::usleep(400000);
      ::kill(::getppid(), SIGCONT);
      ::raise(SIGKILL);
    }
    ::raise(SIGSTOP);
    ::usleep(700000);
    dog.beat("training step", 7);
  }

  // What a transport between GPUs finds has failed: seen by the thread that makes the
  // collectives move, or by the watchdog's while that thread is blocked.
  void gpu(const std::string& fault, bool last) {
    class Broken final : public AsyncSource {
     public:
      void look() override {
        fail(Status::transport, "all_reduce #7 fp32[9] on axis 'data' failed: no link");
      }
    };
    static Broken broken;
    Watchdog dog(world_, {.seconds = 8, .directory = flight_});
    if (last) async_errors().add(&broken);
    if (last && fault == "gpu_asleep") oversleep();
    reduce(1000);
    ::sleep(3);  // until the other rank's abort comes
  }

  World& world_;
  std::string flight_;
  Mesh mesh_;
  Stream stream_;
  Buffer x_;
};

}  // namespace

int main(int argc, char** argv) {
  World world(argc, argv);
  return guarded(world, [&] {
    require(argc == 2, Status::command_line, "one argument, not {}", argc - 1);
    return Faults(world).run(argv[1]);
  });
}
