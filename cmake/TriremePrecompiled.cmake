# TRIREME_PRECOMPILE: the headers that nearly every file reads are compiled once.
# SPDX-License-Identifier: Apache-2.0
# They are the standard library's and GoogleTest's: ours change too often
# (docs/decisions/ci-time.md). Every file still includes what it uses: builds without this
# option show one that does not.
set(_standard_headers
    <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint>
    <cstring> <deque> <exception> <filesystem> <functional> <initializer_list> <limits> <map>
    <memory> <mutex> <numeric> <optional> <set> <source_location> <span> <sstream> <string>
    <string_view> <thread> <tuple> <type_traits> <unordered_map> <utility> <variant> <vector>)

set(_precompiled_options -fpch-preprocess)  # for ccache
if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # As -Wno-restrict: GCC bug 105651, of which precompiled headers show more.
  list(APPEND _precompiled_options -Wno-stringop-overflow -Wno-array-bounds)
endif()

# trireme_precompiled_headers(<kind> HEADERS <headers> LIBRARIES <targets>): what targets of one
# kind share, which are compiled with the options of these libraries.
function(trireme_precompiled_headers kind)
  if(NOT TRIREME_PRECOMPILE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LIBRARIES")
  set(target trireme_precompiled_${kind})
  set(source ${PROJECT_BINARY_DIR}/precompiled/${kind}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Nothing but what is precompiled.\n")
  add_library(${target} OBJECT ${source})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
  target_precompile_headers(${target} PRIVATE ${_standard_headers} ${arg_HEADERS})
  # ccache takes this in place of the compiled header, which holds the path of its folder: so
  # that builds of several presets share what they compile alike (CCACHE_PCH_EXTSUM).
  set(sums)
  foreach(header IN LISTS arg_HEADERS)
    if(EXISTS ${PROJECT_SOURCE_DIR}/${header})  # a header of ours may change
      file(SHA256 ${PROJECT_SOURCE_DIR}/${header} of_header)
      list(APPEND sums ${of_header})
    endif()
  endforeach()
  string(SHA256 sum
         "${CMAKE_CXX_COMPILER_VERSION} ${_standard_headers} ${arg_HEADERS} ${sums}")
  file(CONFIGURE CONTENT "${sum}\n" OUTPUT
       ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.gch.sum)
endfunction()

# trireme_use_precompiled(<target> <kind>)
function(trireme_use_precompiled target kind)
  if(TARGET trireme_precompiled_${kind})
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.(c|cu)$")  # are compiled as another language
    set_source_files_properties(${sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    target_precompile_headers(${target} REUSE_FROM trireme_precompiled_${kind})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${_precompiled_options}>")
  endif()
endfunction()
