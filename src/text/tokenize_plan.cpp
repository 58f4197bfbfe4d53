// The plan of a tokenize job: which files make which part, and who makes it.
// SPDX-License-Identifier: Apache-2.0
#include "text/tokenize_plan.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "base/error.hpp"
#include "base/system_reason.hpp"
#include "io/digest.hpp"
#include "io/json.hpp"

namespace trireme::text {
namespace {

using Json = nlohmann::json;

// Enough parts to share out, few enough that each is worth a file.
constexpr std::int64_t least_part_bytes = std::int64_t{64} << 10;
constexpr std::int64_t most_part_bytes = std::int64_t{64} << 20;
constexpr std::int64_t usual_parts = 512;

struct FileState {
  std::int64_t bytes = 0;
  std::string identity;  // changes when the file does
};

FileState state_of(const std::string& path) {
  if (path == "-") return {0, format("standard input of {}", ::getpid())};  // never again
  struct stat status {};
  const bool found = ::stat(path.c_str(), &status) == 0;
  require(found, Status::missing_input, "{}: cannot be read: {}", path,
          system_reason(errno));
  return {status.st_size, format("{} {} {}.{}", path, status.st_size,
                                 status.st_mtim.tv_sec, status.st_mtim.tv_nsec)};
}

}  // namespace

TokenizePlan plan_tokenize(const std::vector<std::string>& files,
                           const std::string& settings) {
  std::vector<FileState> states;
  std::int64_t total = 0;
  for (const std::string& file : files) {
    states.push_back(state_of(file));
    total += states.back().bytes;
  }
  const std::int64_t enough =
      std::clamp(total / usual_parts, least_part_bytes, most_part_bytes);
  TokenizePlan plan;
  plan.files = std::ssize(files);
  for (std::size_t i = 0; i < files.size();) {
    TokenizePart part;
    // The same files can make up several parts, which may not share a name.
    std::string identity = format("{}\n{}\n", settings, plan.parts.size());
    for (; i < files.size() && part.bytes < enough; ++i) {
      part.files.push_back(files[i]);
      part.bytes += states[i].bytes;
      identity += states[i].identity + '\n';
    }
    part.key = io::digest_of(identity);
    plan.parts.push_back(std::move(part));
  }
  return plan;
}

std::string TokenizePlan::text() const {
  Json list = Json::array();
  // A path need not be UTF-8: as numbers it survives JSON.
  for (const TokenizePart& part : parts) {
    Json names = Json::array();
    for (const std::string& file : part.files)
      names.push_back(Json::binary({file.begin(), file.end()}));
    list.push_back({{"key", part.key}, {"bytes", part.bytes}, {"files", names}});
  }
  const auto packed = Json::to_cbor({{"parts", list}, {"files", files}});
  return {packed.begin(), packed.end()};
}

TokenizePlan TokenizePlan::of_text(const std::string& text) {
  const Json packed = Json::from_cbor(text);
  TokenizePlan plan;
  plan.files = packed.at("files");
  for (const Json& entry : packed.at("parts")) {
    TokenizePart part{entry.at("key"), entry.at("bytes"), {}};
    for (const Json& name : entry.at("files")) {
      const auto& bytes = name.get_binary();
      part.files.emplace_back(bytes.begin(), bytes.end());
    }
    plan.parts.push_back(std::move(part));
  }
  return plan;
}

std::vector<int> TokenizePlan::ranks(int count) const {
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return parts[a].bytes > parts[b].bytes;
  });
  std::vector<std::int64_t> loads(static_cast<std::size_t>(count));
  std::vector<int> ranks(parts.size());
  for (const std::size_t part : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    ranks[part] = static_cast<int>(least - loads.begin());
    *least += parts[part].bytes + 1;
  }
  return ranks;
}

}  // namespace trireme::text
