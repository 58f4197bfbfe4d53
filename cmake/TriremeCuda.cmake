# TRIREME_CUDA=ON: the CUDA language, its run-time libraries and NCCL.
# SPDX-License-Identifier: Apache-2.0

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "GPU architectures to compile for")
endif()
find_package(CUDAToolkit 12.4 REQUIRED)  # also finds nvcc where PATH does not name it
if(NOT CMAKE_CUDA_COMPILER AND CUDAToolkit_NVCC_EXECUTABLE)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE} CACHE FILEPATH "CUDA compiler")
endif()
enable_language(CUDA)
# CMake 3.25 knows no C++20 option of nvcc and would silently compile C++17 or refuse.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)

string(APPEND CMAKE_CUDA_FLAGS " --expt-relaxed-constexpr -lineinfo -Xcompiler=-Wall,-Wextra")
if(TRIREME_WERROR)
  string(APPEND CMAKE_CUDA_FLAGS " -Werror=all-warnings")
endif()

set(TRIREME_CUDA_LIBRARIES_comm CUDA::cudart)
if(TRIREME_NCCL)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
  add_library(nccl::nccl UNKNOWN IMPORTED)
  set_target_properties(nccl::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
  list(APPEND TRIREME_CUDA_LIBRARIES_comm nccl::nccl)
endif()

# cuDNN is optional: without it, our own kernels do all attention. Older headers lack what
# kernels/cuda/cudnn asks of the graph interface.
find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
set(TRIREME_CUDNN OFF)
if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h _cudnn
       REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) [0-9]+$")
  string(REGEX REPLACE "[^0-9;]" "" _cudnn "${_cudnn}")
  list(JOIN _cudnn "." _cudnn)
  if(_cudnn VERSION_LESS 9.16)
    message(STATUS "cuDNN ${_cudnn}: older than 9.16, not used")
  else()
    message(STATUS "cuDNN ${_cudnn}: ${CUDNN_LIBRARY}")
    set(TRIREME_CUDNN ON)
    add_library(cudnn::cudnn UNKNOWN IMPORTED)
    set_target_properties(cudnn::cudnn PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
  endif()
else()
  message(STATUS "cuDNN: not found; attention is done by our own kernels")
endif()

# Which module may link what: libcuda itself is not linked, so that the program starts on a
# node without a driver.
set(TRIREME_CUDA_LIBRARIES_base CUDA::cudart)
set(TRIREME_CUDA_LIBRARIES_kernels CUDA::cudart CUDA::cublasLt)
if(TRIREME_CUDNN)
  list(APPEND TRIREME_CUDA_LIBRARIES_kernels cudnn::cudnn)
endif()
