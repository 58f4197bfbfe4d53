// Variables of the environment: the text of one, and to forget those of libraries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace trireme {

// "" where no variable has the name.
std::string environment_text(const char* name);

// Removes from this process's environment every variable whose name begins with one of
// `prefixes`, but for those named in `kept`. Libraries read theirs when they are first
// called, so the module that owns a library calls this from an initialiser, before main
// and before there is another thread that reads the environment. Returns true, for that
// initialiser. docs/decisions/environment.md says which variables go, and why.
bool forget_variables(std::initializer_list<std::string_view> prefixes,
                      std::initializer_list<std::string_view> kept = {});

}  // namespace trireme
