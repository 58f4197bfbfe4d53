// Manifests of sweeps, and the grids and lists that they are made of.
// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <vector>

#include "app/sweep_manifest.hpp"
#include "app/sweep_points.hpp"
#include "fuzz.hpp"
#include "io/files.hpp"

namespace trireme {
namespace {

constexpr std::string_view digest_mark = "DIGEST";
constexpr std::size_t most_grids = 3;  // each multiplies the points

std::string with_digest(std::string text) {
  static const std::string digest =
      io::file_digest(fuzz::put("deck.toml", "[run]\nsteps = 1\n"));
  if (const auto at = text.find(digest_mark); at != std::string::npos)
    text.replace(at, digest_mark.size(), digest);
  return text;
}

void check_manifest(const std::string& text) {
  const std::string path = fuzz::put("manifest.toml", with_digest(text));
  const auto manifest =
      fuzz::unless_refused([&] { return app::SweepManifest::read(path); });
  if (!manifest) return;
  for (std::size_t i = 0; i < manifest->points.size(); ++i)
    manifest->deck_words(static_cast<std::int64_t>(i));
  const auto again =
      app::SweepManifest::read(fuzz::put("manifest.toml", manifest->toml()));
  fuzz::require_equal("the manifest", manifest->toml(), again.toml());
}

// A list, a line "grids", and a grid a line.
void check_points(const std::string& text) {
  const auto parts = fuzz::split_at(text, "grids");
  const std::string &list = parts.first, &rest = parts.second;
  std::vector<std::string> grids;
  std::istringstream lines(rest);
  for (std::string line; std::getline(lines, line) && grids.size() < most_grids;)
    grids.push_back(line);
  const auto points = fuzz::unless_refused(
      [&] { return app::sweep_points(grids, list, list.empty() ? "" : "list"); });
  if (points && points->empty()) fuzz::finding("a sweep without a point");
}

// The manifest, then a line "--", then the points.
void check(std::string_view input) {
  const auto [manifest, points] = fuzz::split_at(input, "--");
  check_manifest(manifest);
  if (!points.empty()) check_points(points);
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
