// Sets of characters with names of POSIX, such as [:alpha:], by Unicode.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "text/character_sets.hpp"

namespace trireme::text {

// The set that Oniguruma means by [:name:]; empty where there is none of that name.
CharacterSet posix_set(std::string_view name);

// The set of \p{name} that is no category and no script; `name` in small letters, without
// blanks, "-" and "_". Empty where there is none of that name.
CharacterSet other_property(std::string_view name);

}  // namespace trireme::text
