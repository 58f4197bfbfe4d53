// What rank 0 does with the indices of many shards: seconds, and memory.
// SPDX-License-Identifier: Apache-2.0
// The shards are those of a model of 70 billion parameters under FULL_SHARD.
//   index_bench [RANKS [FOLDER]]        10,000; views of whole tensors go to the folder
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/checkpoint_index.hpp"
#include "io/checkpoint_views.hpp"
#include "io/digest.hpp"
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

void run(int ranks, const std::string& folder) {
  std::vector<std::string> shards;
  double sent = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    shards.push_back(test::shard_index({}, rank, ranks));
    sent += static_cast<double>(shards.back().size());
  }
  std::printf("%d ranks: %.0f bytes of a rank, %.0f MiB of all\n", ranks, sent / ranks,
              mib(sent));
  Clock::time_point last = Clock::now();
  const auto lap = [&](const char* what) {
    const std::chrono::duration<double> time = Clock::now() - last;
    std::printf("  %-28s %6.2f s, at most %.0f MiB so far\n", what, time.count(),
                mib(peak_bytes()));
    last = Clock::now();
  };
  std::string bytes;
  {
    const io::Manifest manifest = io::merge_indices(std::move(shards));
    lap("merged");
    io::require_whole("merged", manifest);
    lap("found to be whole");
    bytes = io::index_bytes(manifest);
    std::printf("  %zu boxes of %zu tensors in %zu files: an index of %.0f MiB, %s\n",
                manifest.boxes.boxes(), manifest.tensors.size(), manifest.files.size(),
                mib(static_cast<double>(bytes.size())), io::digest_of(bytes).c_str());
  }
  last = Clock::now();
  io::Manifest read;
  io::parse_index("read", std::move(bytes), read);
  io::require_whole("read", read);
  lap("read again before the rename");
  if (folder.empty()) return;
  io::write_views(Directory(folder), io::whole_name, read);
  lap("views of whole tensors");
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
