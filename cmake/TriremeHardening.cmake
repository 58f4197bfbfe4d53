# TRIREME_HARDENING: what the compiler and the linker do against errors in memory.
# SPDX-License-Identifier: Apache-2.0
# Targets: trireme_hardening (modules and programs), trireme_hardened_link (programs).
# docs/decisions/hardening.md says what each costs.
include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)
include(CheckPIESupported)

add_library(trireme_hardening INTERFACE)
add_library(trireme_assertions INTERFACE)  # all modules but kernels: see trireme_module()
add_library(trireme_hardened_link INTERFACE)
set(TRIREME_HARDENING_OPTIONS "")  # trireme --version
if(NOT TRIREME_HARDENING)
  return()
endif()
target_compile_definitions(trireme_assertions INTERFACE
                           "$<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>")
if(TRIREME_SANITIZE)  # watches more than these, and knows other frames and other calls
  return()
endif()

foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER "TRIREME_HAS${flag}" has)
  check_cxx_compiler_flag(${flag} ${has})  # -fcf-protection: x86 alone
  if(${has})
    list(APPEND TRIREME_HARDENING_OPTIONS ${flag})
  endif()
endforeach()

# Only where the compiler optimises, and not where the distribution's compiler or the
# user's flags have set a level. Level 3 wants GCC 12 or clang 9, and glibc 2.35.
string(TOUPPER "${CMAKE_BUILD_TYPE}" _type)
set(CMAKE_REQUIRED_FLAGS "${CMAKE_CXX_FLAGS_${_type}}")
check_cxx_source_compiles("
  #if !defined(__OPTIMIZE__) || defined(_FORTIFY_SOURCE)
  #error not to be set
  #endif
  int main() {}" TRIREME_WANTS_FORTIFY_${_type})
if(TRIREME_WANTS_FORTIFY_${_type})
  string(APPEND CMAKE_REQUIRED_FLAGS " -D_FORTIFY_SOURCE=3")
  check_cxx_source_compiles("
    #include <cstdlib>
    #if !defined(__USE_FORTIFY_LEVEL) || __USE_FORTIFY_LEVEL < 3
    #error not known
    #endif
    int main() {}" TRIREME_HAS_FORTIFY_3_${_type})
  if(TRIREME_HAS_FORTIFY_3_${_type})
    list(APPEND TRIREME_HARDENING_OPTIONS -D_FORTIFY_SOURCE=3)
  else()
    list(APPEND TRIREME_HARDENING_OPTIONS -D_FORTIFY_SOURCE=2)
  endif()
endif()
unset(CMAKE_REQUIRED_FLAGS)

# Modules are linked into programs only: -fPIE, which unlike -fPIC lets calls between files
# be direct.
check_pie_supported(LANGUAGES CXX)
if(CMAKE_CXX_LINK_PIE_SUPPORTED)
  list(APPEND TRIREME_HARDENING_OPTIONS -fPIE)
  target_link_options(trireme_hardened_link INTERFACE -pie)
  target_compile_options(trireme_hardening INTERFACE
                         "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIE>")
endif()
target_compile_options(trireme_hardening INTERFACE
                       "$<$<COMPILE_LANGUAGE:CXX>:${TRIREME_HARDENING_OPTIONS}>")

foreach(flag relro now noexecstack)
  check_linker_flag(CXX "LINKER:-z,${flag}" TRIREME_LINKER_HAS_${flag})
  if(TRIREME_LINKER_HAS_${flag})
    target_link_options(trireme_hardened_link INTERFACE "LINKER:-z,${flag}")
  endif()
endforeach()
