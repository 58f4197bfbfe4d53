// What rank 0 does with the indices of many shards: seconds, and memory.
// SPDX-License-Identifier: Apache-2.0
// The shards are those of a model of 70 billion parameters under FULL_SHARD.
//   index_bench [RANKS [FOLDER]]        10,000; index and views of whole tensors go to
//   the
//                                       folder; without, the index goes to memory, no
//                                       views
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/checkpoint_index.hpp"
#include "io/checkpoint_views.hpp"
#include "io/digest.hpp"
#include "io/index_gather.hpp"
#include "io/index_merge.hpp"
#include "support/sharded_index.hpp"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double mib(double bytes) { return bytes / (1 << 20); }

double peak_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

// The laps of a run: seconds since the last one, and memory.
class Laps {
 public:
  void start() { last_ = Clock::now(); }
  void stop() { time_ += Clock::now() - last_; }
  void print(const char* what) {
    std::printf("  %-28s %6.2f s, at most %.0f MiB so far\n", what, time_.count(),
                mib(peak_bytes()));
    time_ = {};
  }

 private:
  Clock::time_point last_;
  std::chrono::duration<double> time_{};
};

// What rank 0 has of all ranks after the rounds of io::IndexGather.
std::vector<std::string> merged_rounds(int ranks, Laps& laps) {
  std::vector<std::string> merged, round;
  double sent = 0;
  std::size_t bytes = 0;
  const auto merge = [&] {
    laps.start();
    merged.push_back(io::IndexMerge({round.begin(), round.end()}).text());
    laps.stop();
    round.clear();
    bytes = 0;
  };
  for (int rank = 0; rank < ranks; ++rank) {
    std::string shard = test::shard_index({}, rank, ranks);
    sent += static_cast<double>(shard.size());
    if (bytes + shard.size() > io::IndexGather::round_bytes) merge();
    bytes += shard.size();
    round.push_back(std::move(shard));
  }
  merge();
  std::printf("%d ranks: %.0f bytes of a rank, %.0f MiB of all, %zu rounds\n", ranks,
              sent / ranks, mib(sent), merged.size());
  return merged;
}

void run(int ranks, const std::string& folder) {
  Laps laps;
  std::vector<std::string> rounds = merged_rounds(ranks, laps);
  laps.print("merged in rounds");
  const std::string path = (folder.empty() ? "/dev/shm" : folder) + "/index_bench.bin";
  laps.start();
  {
    const io::IndexMerge merge({rounds.begin(), rounds.end()});
    std::ofstream file(path, std::ios::binary);
    io::Digest digest;
    merge.write([&](std::string_view piece) {
      digest.add(piece.data(), piece.size());
      file << piece;
    });
    laps.stop();
    std::printf("  %lld boxes, an index of %.0f MiB, %s\n",
                static_cast<long long>(merge.boxes()),
                mib(static_cast<double>(merge.bytes())), digest.text().c_str());
  }
  rounds = {};
  laps.print("made one and written");
  laps.start();
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::filesystem::remove(path);
  io::Manifest read;
  io::parse_index("read", std::move(bytes), read);
  io::require_whole("read", read);
  laps.stop();
  laps.print("read again before the rename");
  if (folder.empty()) return;
  laps.start();
  io::write_views(Directory(folder), io::whole_name, read);
  laps.stop();
  laps.print("views of whole tensors");
  std::size_t mappings = 0;  // of each tensor one for each file that holds boxes of it
  for (std::size_t i = 0; i < read.tensors.size(); ++i) {
    std::set<std::uint32_t> files;
    for (std::size_t b = 0; b < read.boxes.count(i); ++b)
      files.insert(read.boxes.get(i, b).file);
    mappings += files.size();
  }
  const auto size = std::filesystem::file_size(folder + "/" + io::whole_name);
  std::printf("  %zu mappings in %.0f MiB\n", mappings, mib(static_cast<double>(size)));
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  trireme::run(argc > 1 ? std::stoi(argv[1]) : 10000, argc > 2 ? argv[2] : "");
  return 0;
}
