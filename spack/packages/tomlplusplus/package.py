# TOML++ for releases of Spack that have no package of it.
# SPDX-License-Identifier: Apache-2.0
from spack.package import *

try:  # Spack 1.0 and later keep the build systems in the repository of packages
    from spack_repo.builtin.build_systems.cmake import CMakePackage

    compilers_are_packages = True
except ImportError:  # before, spack.package has them
    compilers_are_packages = False


class Tomlplusplus(CMakePackage):
    """A header-only TOML parser and writer for C++17 and later."""

    homepage = "https://marzer.github.io/tomlplusplus/"
    url = "https://github.com/marzer/tomlplusplus/archive/refs/tags/v3.4.0.tar.gz"

    license("MIT")

    version("3.4.0", sha256="8517f65938a4faae9ccf8ebb36631a38c1cadfb5efa85d9a72e15b9e97d25155")

    if compilers_are_packages:
        depends_on("cxx", type="build")
    depends_on("cmake@3.14:", type="build")
