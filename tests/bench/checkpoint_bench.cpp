// What checkpoints cost: the rate of writing, and how much longer steps around it take.
// SPDX-License-Identifier: Apache-2.0
// The rate is set against the raw rate of the same disk; steps are those of Bench::run().
//   checkpoint_bench [--mib N] [--saves N] [--directory DIR]        N MiB a rank
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/median.hpp"
#include "base/stopwatch.hpp"
#include "comm/world.hpp"
#include "io/checkpoint_find.hpp"
#include "io/checkpoint_snapshot.hpp"
#include "io/checkpoint_verify.hpp"
#include "io/checkpoint_writer.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::int64_t mib = 256;
  int saves = 5;
  std::string directory = ".";
};

Settings settings_of(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--mib") settings.mib = std::stoll(argv[i + 1]);
    if (key == "--saves") settings.saves = std::stoi(argv[i + 1]);
    if (key == "--directory") settings.directory = argv[i + 1];
  }
  return settings;
}

// Seconds to write and sync the bytes with nothing between them and the disk.
double raw_write(const std::string& path, const std::vector<float>& data) {
  const auto start = Clock::now();
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  require(file >= 0, Status::cannot_create, "{}: cannot be created", path);
  const auto* from = reinterpret_cast<const char*>(data.data());
  std::size_t left = data.size() * sizeof(float);
  while (left > 0) {
    const ssize_t put = ::write(file, from, std::min(left, std::size_t{8} << 20));
    require(put > 0, Status::io, "{}: write failed", path);
    from += put;
    left -= static_cast<std::size_t>(put);
  }
  require(::fsync(file) == 0, Status::io, "{}: fsync failed", path);
  ::close(file);
  const double seconds = seconds_since(start);
  ::unlink(path.c_str());
  return seconds;
}

// Work of `rounds` passes over a block that fits the cache. Never inlined: a copy of the
// loop for each place it is called from may run at half the speed of another.
[[gnu::noinline]] double step(std::vector<float>& block, int rounds) {
  const auto start = Clock::now();
  for (int round = 0; round < rounds; ++round)
    for (float& value : block) value = value * 0.999F + 0.001F;
  return seconds_since(start);
}

class Bench {
 public:
  // A step is arithmetic in the cache, half as long as a save that training waits for. It
  // ends with an update, before which weights and moments must have been copied. Four
  // such steps are measured, with and without a save at their begin.
  Bench(comm::World& world, const Settings& settings)
      : world_(world),
        settings_(settings),
        folder_(settings.directory + "/checkpoint-bench"),
        data_(static_cast<std::size_t>(settings.mib) << 18),
        block_(1 << 14) {
    for (std::size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<float>(i % 997);
    const std::int64_t rows = settings.mib * 256, columns = 1024;
    const std::int64_t parts = 8;  // tensors
    for (std::int64_t p = 0; p < parts; ++p) {
      const std::int64_t own = rows / parts;
      boxes_.push_back(
          {"model/tensor-" + std::to_string(p),
           {own * world.size(), columns},
           {own * world.rank(), 0},
           TensorView(data_.data() + p * own * columns, DType::f32, {own, columns}),
           true,
           true});
    }
    world_.agree([&] { fs::create_directories(folder_); });
  }
  ~Bench() {
    world_.barrier();
    std::error_code ignored;
    if (world_.rank() == 0) fs::remove_all(folder_, ignored);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void run() {
    const double bytes = static_cast<double>(settings_.mib << 20) * world_.size();
    std::vector<double> raw, waited, background, blocking, added;
    io::CheckpointSnapshot snapshot(boxes_);
    io::Retention keep_one;
    keep_one.keep = 1;
    io::CheckpointWriter writer(world_, folder_ + "/checkpoints", keep_one);
    int rounds = 0;
    for (int save = 0; save < settings_.saves; ++save) {
      const std::string path = folder_ + "/raw-" + std::to_string(world_.rank());
      world_.barrier();
      raw.push_back(world_.max(raw_write(path, data_)));
      waited.push_back(save_and_wait(writer, 2 * save + 1));
      if (rounds == 0) rounds = rounds_for(waited.back() / 2);
      blocking_ = 0;
      const double alone = run_steps(nullptr, nullptr, rounds);
      const auto start = Clock::now();
      auto copies = snapshot.begin(boxes_);
      writer.begin(info(2 * save + 2), std::move(copies.boxes), true,
                   std::move(copies.later));
      const double begin = seconds_since(start);
      const double beside = run_steps(&writer, &snapshot, rounds);
      blocking.push_back(world_.max(begin + blocking_));
      added.push_back((world_.max(begin) + beside) / alone - 1);
      const auto rest = writer.finish();
      background.push_back(rest ? rest->seconds : last_seconds_);
    }
    const double file = bytes_of_folder();
    if (world_.rank() != 0) return;
    std::printf("%d ranks, %.0f MiB a rank, medians of %d\n", world_.size(),
                static_cast<double>(settings_.mib), settings_.saves);
    print("raw write and fsync", bytes, median(raw), median(raw));
    print("save, training waits", file, median(waited), median(raw) * file / bytes);
    print("save in the background", file, median(background), median(raw) * file / bytes);
    std::printf("  blocking time            %8.4f s of a save in the background\n",
                median(blocking));
    std::printf("  steps around a save      %+8.2f %% of their time\n",
                100 * median(added));
  }

 private:
  static io::CheckpointInfo info(std::int64_t step) {
    io::CheckpointInfo info;
    info.step = step;
    return info;
  }
  static void print(const char* what, double bytes, double seconds, double raw_seconds) {
    std::printf("  %-24s %8.3f s  %7.3f GB/s  %5.1f %% of raw\n", what, seconds,
                bytes / seconds * 1e-9, 100 * raw_seconds / seconds);
  }
  double save_and_wait(io::CheckpointWriter& writer, std::int64_t step) {
    const auto start = Clock::now();
    writer.begin(info(step), boxes_, false);
    writer.finish();
    return world_.max(seconds_since(start));
  }
  int rounds_for(double seconds) {
    constexpr int some = 1000;
    step(block_, some);
    return static_cast<int>(world_.max(some * seconds / step(block_, some)));
  }
  // Seconds of four steps; with a writer each waits for the copy and ends with a poll.
  double run_steps(io::CheckpointWriter* writer, io::CheckpointSnapshot* snapshot,
                   int rounds) {
    world_.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < 4; ++i) {
      step(block_, rounds);
      world_.max(0);  // as the norm of the gradients
      if (writer == nullptr) continue;
      const auto wait = Clock::now();
      snapshot->wait();
      if (const auto done = writer->poll()) last_seconds_ = done->seconds;
      blocking_ += seconds_since(wait);
    }
    return world_.max(seconds_since(start));
  }
  double bytes_of_folder() const {
    const std::string path = io::find_checkpoint(folder_ + "/checkpoints");
    double bytes = 0;
    for (const auto& entry : fs::directory_iterator(path))
      bytes += static_cast<double>(entry.file_size());
    return bytes;
  }

  comm::World& world_;
  Settings settings_;
  std::string folder_;
  std::vector<float> data_, block_;
  std::vector<io::TensorBox> boxes_;
  double last_seconds_ = 0;
  double blocking_ = 0;  // seconds that steps waited for the copy and for polls
};

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  trireme::comm::World world(argc, argv);
  return trireme::comm::guarded(world, [&] {
    trireme::Bench(world, trireme::settings_of(argc, argv)).run();
    return 0;
  });
}
