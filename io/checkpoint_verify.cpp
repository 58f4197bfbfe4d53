// Comparing the files of a checkpoint with the digests that its manifest holds.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_verify.hpp"

#include <algorithm>
#include <map>

#include "io/digest.hpp"

namespace trireme::io {
namespace {

// The boxes of each file, in the order of their bytes.
std::map<std::string, std::vector<Region>> boxes_by_file(const std::string& directory,
                                                         const Manifest& manifest) {
  std::map<std::string, std::vector<Region>> files;
  for (std::size_t i = 0; i < manifest.boxes.size(); ++i) {
    const auto element = static_cast<std::int64_t>(size_of(manifest.tensors[i].dtype));
    for (const BoxEntry& box : manifest.boxes[i])
      files[box.file].push_back({box.file,
                                 {{box.offset, box.extent.elements() * element}},
                                 box.digest,
                                 manifest.tensors[i].path});
  }
  for (auto& [name, boxes] : files) {
    std::sort(boxes.begin(), boxes.end(), [](const Region& a, const Region& b) {
      return a.ranges[0].begin < b.ranges[0].begin;
    });
    const auto file =
        std::find_if(manifest.files.begin(), manifest.files.end(),
                     [&wanted = name](const FileEntry& f) { return f.name == wanted; });
    std::int64_t end = 0;
    for (const Region& box : boxes) {
      const auto [begin, bytes] = box.ranges[0];
      require(file != manifest.files.end() && begin >= end && bytes >= 0 &&
                  bytes <= file->bytes - begin,
              Status::bad_content, "{}/{}: a box of '{}' has no place in '{}'", directory,
              manifest_name, box.tensor, name);
      end = begin + bytes;
    }
  }
  return files;
}

// "" or what is wrong.
std::string compare(const std::string& path, const PlainFile& file,
                    const Region& region) {
  Digest digest;
  try {
    for (const auto& [begin, bytes] : region.ranges) file.digest(begin, bytes, {&digest});
  } catch (const Error& error) {
    return error.what();
  }
  if (digest.text() == region.digest) return "";
  return format("{}: damaged{}: its XXH3-128 is {}, but {} was written", path,
                region.tensor.empty() ? "" : " in '" + region.tensor + "'", digest.text(),
                region.digest);
}

}  // namespace

std::int64_t Region::bytes() const {
  std::int64_t sum = 0;
  for (const Range& range : ranges) sum += range.bytes;
  return sum;
}

std::vector<Region::Range> outside(std::int64_t bytes,
                                   const std::vector<Region::Range>& boxes) {
  std::vector<Region::Range> gaps;
  std::int64_t at = 0;
  for (const auto& box : boxes) {
    if (box.begin > at) gaps.push_back({at, box.begin - at});
    at = box.begin + box.bytes;
  }
  if (bytes > at) gaps.push_back({at, bytes - at});
  return gaps;
}

std::vector<Region> regions(const std::string& directory, const Manifest& manifest) {
  auto boxes = boxes_by_file(directory, manifest);
  std::vector<Region> all;
  for (const FileEntry& file : manifest.files) {
    auto& own = boxes[file.name];
    if (own.empty() || file.frame.empty()) {
      all.push_back({file.name, {{0, file.bytes}}, file.digest, ""});
      continue;
    }
    std::vector<Region::Range> ranges;
    for (const Region& box : own) ranges.push_back(box.ranges[0]);
    all.push_back({file.name, outside(file.bytes, ranges), file.frame, ""});
    std::move(own.begin(), own.end(), std::back_inserter(all));
  }
  return all;
}

Verification verify_share(PlainFiles& files, const Manifest& manifest, int part,
                          int parts) {
  const std::vector<Region> all = regions(files.path(), manifest);
  std::int64_t total = 0, before = 0;
  for (const Region& region : all) total += region.bytes();
  Verification result;
  for (const Region& region : all) {
    // A region is compared by the part in which its middle lies.
    const double middle =
        static_cast<double>(before) + 0.5 * static_cast<double>(region.bytes());
    before += region.bytes();
    const int owner =
        std::min(parts - 1,
                 static_cast<int>(middle * parts /
                                  static_cast<double>(std::max<std::int64_t>(1, total))));
    if (owner != part) continue;
    const PlainFile& file = files.open(region.file);
    const std::string wrong = compare(file.path(), file, region);
    if (!wrong.empty()) result.damage.push_back(wrong);
    result.bytes += region.bytes();
  }
  return result;
}

Verification verify_share(const std::string& directory, const Manifest& manifest,
                          int part, int parts) {
  PlainFiles files(directory);
  return verify_share(files, manifest, part, parts);
}

}  // namespace trireme::io
