// The start-up report and the data of a run, on simulated ranks.
// SPDX-License-Identifier: Apache-2.0
#include "scale/start_phases.hpp"

#include <array>
#include <cstdio>
#include <fstream>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "comm/transport.hpp"
#include "io/shared_source.hpp"
#include "io/token_formats.hpp"
#include "launch/startup_report.hpp"

namespace trireme::scale {
namespace {

constexpr std::int32_t tokens_of_file = 16, sequence = 4, vocabulary = 32;
static_assert(samples_of_file == (tokens_of_file - 1) / sequence);

io::SourceConfig config_of(const std::string& folder) {
  return {.kind = io::SourceKind::llmc,
          .paths = {folder + "/tokens-*.bin"},
          .sequence = sequence,
          .vocabulary = vocabulary};
}

template <class T>
void write(std::ofstream& file, std::span<const T> values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

}  // namespace

void make_start_files(const std::string& folder) {
  std::ofstream(folder + "/program") << "stands for the program";
  for (int i = 0; i < token_files; ++i) {
    std::array<std::int32_t, io::llmc::header_bytes / 4> header{};
    header[0] = io::llmc::magic_u16;
    header[1] = io::llmc::version_u16;
    header[2] = tokens_of_file;
    const std::vector<std::uint16_t> tokens(tokens_of_file, 7);
    std::ofstream file(folder + "/" + format("tokens-{}.bin", 100 + i), std::ios::binary);
    write(file, std::span<const std::int32_t>(header));
    write(file, std::span<const std::uint16_t>(tokens));
  }
}

void choose_devices(comm::World& world) {
  const comm::RankDevice mine{.rank = world.rank(),
                              .host = world.host(),
                              .card = format("0000:{}b:00.0", world.rank_on_node()),
                              .uuid = std::to_string(world.rank_on_node())};
  const auto here = comm::devices_of_node(world, mine);
  world.agree([&] {
    comm::check_sharing(here, false);
    require(
        comm::choose_transport(comm::Backend::nccl, here, true) == comm::Transport::nccl,
        "another transport");
  });
}

void compare(comm::World& world, const std::string& folder) {
  launch::check_same_everywhere(world, "the deck", folder + "/program");
}

void report(comm::World& world) { launch::report_placement(world, {}, 1); }

std::unique_ptr<io::SampleSource> open_data(comm::World& world, const std::string& folder,
                                            bool reads) {
  return io::open_shared(
      world, config_of(folder),
      [](const io::SourceConfig& config) { return io::open_source(config); },
      {.index = folder + "/data-index", .reads = reads});
}

void read_data(const io::SampleSource& source, int rank) {
  std::vector<std::int32_t> tokens(sequence + 1);
  for (int i = 0; i < samples_of_step; ++i) {
    source.sample((rank + i) % source.samples(), tokens);
    require(tokens[0] == 7, "token {} was read", tokens[0]);
  }
}

void read_data_anew(const std::string& folder, int rank) {
  for (int i = 0; i < samples_of_step; ++i) {
    const int file = (rank + i) / samples_of_file % token_files;
    std::ifstream(folder + "/" + format("tokens-{}.bin", 100 + file)).get();
  }
}

}  // namespace trireme::scale
