// find_function(): functions of libraries that may not be linked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

namespace trireme {

// The function of this name and type in what is loaded, or null.
template <class F>
F* find_function(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace trireme
