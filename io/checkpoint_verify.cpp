// Comparing the files of a checkpoint with the digests that its manifest holds.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_verify.hpp"

#include <algorithm>
#include <utility>

#include "io/digest.hpp"

namespace trireme::io {
namespace {

// The boxes of some files, each in the order of its bytes.
std::vector<std::vector<Region>> boxes_by_file(const std::string& directory,
                                               const Manifest& manifest,
                                               std::size_t first, std::size_t last) {
  std::vector<std::vector<Region>> files(last - first);
  for (std::size_t i = 0; i < manifest.boxes.tensors(); ++i) {
    const auto element = static_cast<std::int64_t>(size_of(manifest.tensors[i].dtype));
    for (std::size_t b = 0; b < manifest.boxes.count(i); ++b) {
      const std::size_t number = manifest.boxes.file(i, b);
      if (number < first || number >= last) continue;
      const BoxRecord box = manifest.boxes.get(i, b);
      files[number - first].push_back({manifest.files[number].name,
                                       {{box.offset, box.extent.elements() * element}},
                                       digest_text(box.digest),
                                       manifest.tensors[i].path});
    }
  }
  for (std::size_t number = first; number < last; ++number) {
    auto& boxes = files[number - first];
    std::sort(boxes.begin(), boxes.end(), [](const Region& a, const Region& b) {
      return a.ranges[0].begin < b.ranges[0].begin;
    });
    const FileEntry& file = manifest.files[number];
    std::int64_t end = 0;
    for (const Region& box : boxes) {
      const auto [begin, bytes] = box.ranges[0];
      require(begin >= end && bytes >= 0 && bytes <= file.bytes - begin,
              Status::bad_content, "{}/{}: a box of '{}' has no place in '{}'", directory,
              manifest_name, box.tensor, file.name);
      end = begin + bytes;
    }
  }
  return files;
}

// "" or what is wrong.
std::string compare(const std::string& path, const PlainFile& file,
                    const Region& region) {
  Digest digest;
  for (const auto& [begin, bytes] : region.ranges) file.digest(begin, bytes, {&digest});
  if (digest.text() == region.digest) return "";
  return format("{}: damaged{}: its XXH3-128 is {}, but {} was written", path,
                region.tensor.empty() ? "" : " in '" + region.tensor + "'", digest.text(),
                region.digest);
}

// The part that a byte belongs to.
int owner_of(double at, double total, int parts) {
  const double share = std::max(total, 1.0) / parts;
  return std::min(parts - 1, static_cast<int>(at / share));
}

void add_region(PlainFiles& files, const Region& region, Verification& result) {
  std::string wrong;
  try {
    const PlainFile& file = files.open(region.file);
    wrong = compare(file.path(), file, region);
  } catch (const Error& error) {
    if (error.status() != Status::bad_content) throw;
    wrong = error.what();
  }
  if (!wrong.empty()) result.damage.push_back(wrong);
  result.bytes += region.bytes();
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

std::vector<Region> regions(const std::string& directory, const Manifest& manifest,
                            std::size_t first, std::size_t last) {
  auto boxes = boxes_by_file(directory, manifest, first, last);
  std::vector<Region> all;
  for (std::size_t number = first; number < last; ++number) {
    const FileEntry& file = manifest.files[number];
    auto& own = boxes[number - first];
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

bool reaches_into(double begin, double end, double total, int part, int parts) {
  return owner_of(end, total, parts) >= part && owner_of(begin, total, parts) <= part;
}

// A region is compared by the part in which its middle lies, so that a part asks only for
// the regions of the files that lie in it or reach into it.
Verification verify_share(PlainFiles& files, const Manifest& manifest, int part,
                          int parts, const SharePlace& place) {
  double total = place.total;
  if (total < 0) {
    total = 0;
    for (const FileEntry& file : manifest.files) total += static_cast<double>(file.bytes);
  }
  const auto owner_of = [&](double at) { return io::owner_of(at, total, parts); };
  // The files that lie in the part or reach into it, a few of them at a time.
  constexpr std::size_t most_at_once = 256;
  std::vector<double> begins = {place.before};
  for (const FileEntry& file : manifest.files)
    begins.push_back(begins.back() + static_cast<double>(file.bytes));
  const std::size_t count = manifest.files.size();
  std::size_t first = 0;
  while (first < count && owner_of(begins[first + 1]) < part) ++first;
  Verification result;
  while (first < count && owner_of(begins[first]) <= part) {
    std::size_t last = first;
    while (last < count && last - first < most_at_once && owner_of(begins[last]) <= part)
      ++last;
    double begin = begins[first];
    for (const Region& region : regions(files.path(), manifest, first, last)) {
      const auto size = static_cast<double>(region.bytes());
      const double middle = std::exchange(begin, begin + size) + 0.5 * size;
      if (owner_of(middle) == part) add_region(files, region, result);
    }
    first = last;
  }
  return result;
}

Verification verify_share(const std::string& directory, const Manifest& manifest,
                          int part, int parts) {
  PlainFiles files(directory);
  return verify_share(files, manifest, part, parts);
}

}  // namespace trireme::io
