# trireme_module(): one static library per module, so that the link line repeats the layers.
# SPDX-License-Identifier: Apache-2.0

add_library(trireme_options INTERFACE)
target_compile_features(trireme_options INTERFACE cxx_std_20)
target_include_directories(trireme_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
target_compile_options(trireme_options INTERFACE -Wall -Wextra -fopenmp-simd -fno-math-errno
                       -fno-trapping-math)
if(TRIREME_NATIVE)
  target_compile_options(trireme_options INTERFACE -march=native)
endif()
if(TRIREME_WERROR)
  target_compile_options(trireme_options INTERFACE -Werror)
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE})
endif()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# trireme_module(<name> SOURCES <files> USES <modules> [LIBRARIES <targets>])
# USES are visible to users of the module; LIBRARIES stay its own.
function(trireme_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES;LIBRARIES")
  add_library(trireme_${name} STATIC ${arg_SOURCES})
  target_link_libraries(trireme_${name} PUBLIC trireme_options)
  foreach(module IN LISTS arg_USES)
    target_link_libraries(trireme_${name} PUBLIC trireme_${module})
  endforeach()
  target_link_libraries(trireme_${name} PRIVATE ${arg_LIBRARIES})
endfunction()
