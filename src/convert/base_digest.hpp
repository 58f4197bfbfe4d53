// The digest of the model beside adapters, by which their checkpoint knows it again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "model/base_codes.hpp"

namespace trireme::convert {

// A base's digest is a word: the kind of codes, a colon, and 16 hexadecimal digits for
// each of so many parts of its tensors, so that ranks can share it out. Whatever files
// the tensors are in, it is of their names, types, shapes and bytes.
inline constexpr int base_digest_parts = 32;

// Of the folder or checkpoint at `path` the parts `part`, part + parts, ...: what
// join_base_digest() puts together. Cost: reads their tensors once.
std::string share_of_base_digest(const std::string& path, int part, int parts);
// The digest, from the shares of all.
std::string join_base_digest(model::BaseCodes kind,
                             const std::vector<std::string>& shares);

// Compares a share of the parts of a digest that `checkpoint` has with what is at `path`
// now. Throws Error(bad_content) where they differ, where `kind` is another, or where the
// digest is none.
void check_base_digest(const std::string& checkpoint, const std::string& digest,
                       const std::string& path, model::BaseCodes kind, int part,
                       int parts);

}  // namespace trireme::convert
